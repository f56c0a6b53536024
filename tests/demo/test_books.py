from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from ascertain.errors import LookupDown
from starter.demo.books import read_books
from starter.demo.compare import What
from starter.demo.provider import API_KEY, LocalStripe


@pytest.fixture(scope="module")
async def outside(tmp_path_factory):
    async with LocalStripe(tmp_path_factory.mktemp("localstripe")) as server:
        yield server


@pytest.fixture
async def http(outside):
    """A client of an outside in which nothing has happened yet."""
    async with httpx.AsyncClient(base_url=outside.url, auth=(API_KEY, "")) as client:
        (await client.delete("/_config/data")).raise_for_status()
        yield client


async def pay(http, effect, card="pm_card_visa"):
    form = {"amount": "1999", "currency": "eur", "payment_method": card, "confirm": "true"}
    named = {} if effect is None else {"metadata[effect_id]": effect}
    return await http.post("/v1/payment_intents", data={**form, **named})


async def test_the_outside_is_listed_to_its_end(outside, http):
    for number in range(101):
        await pay(http, f"ef1-{number}")
    books = await read_books(outside.url, API_KEY)
    assert len(books.facts) == 101
    assert len({fact.effect_id for fact in books.facts}) == 101


async def test_a_charge_carries_the_effect_and_the_id_of_its_payment(outside, http):
    paid = (await pay(http, "ef1-paid")).json()
    (fact,) = (await read_books(outside.url, API_KEY)).facts
    assert (fact.external_id, fact.effect_id) == (paid["id"], "ef1-paid")
    assert (fact.what, fact.amount, fact.currency) == (What.CHARGE, 1999, "eur")


async def test_a_charge_that_nobody_named_is_a_fact_too(outside, http):
    await pay(http, None)
    (fact,) = (await read_books(outside.url, API_KEY)).facts
    assert fact.effect_id is None


async def test_a_declined_card_is_no_fact(outside, http):
    answer = await pay(http, "ef1-declined", card="pm_card_chargeCustomerFail")
    books = await read_books(outside.url, API_KEY)
    assert answer.status_code == 402
    assert books.facts == ()
    assert books.declined == {"ef1-declined"}


async def test_each_repeat_under_the_same_key_is_another_fact_which_is_why_only_asking_helps(
    outside, http
):
    http.headers["Idempotency-Key"] = "ef1-same"
    await pay(http, "ef1-same")
    await pay(http, "ef1-same")
    assert len((await read_books(outside.url, API_KEY)).facts) == 2


async def test_a_refund_names_the_payment_that_it_takes_back(outside, http):
    paid = (await pay(http, "ef1-paid")).json()
    form = {"payment_intent": paid["id"], "metadata[effect_id]": "ef1-undo"}
    await http.post("/v1/refunds", data=form)
    (refund,) = [
        fact for fact in (await read_books(outside.url, API_KEY)).facts if fact.what is What.REFUND
    ]
    assert (refund.effect_id, refund.amount, refund.of) == ("ef1-undo", 1999, paid["id"])


async def test_an_outside_that_cannot_be_listed_is_no_empty_book(outside):
    with pytest.raises(LookupDown):
        await read_books(outside.url, "no-key")


def listening_on(port: int) -> list[str]:
    """The local addresses, in the kernel's hexadecimal, on which somebody listens on this port."""
    tables = (Path("/proc/net") / name for name in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table.read_text().splitlines()[1:]]
    return [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")]


async def test_it_is_served_to_this_machine_alone(outside):
    assert listening_on(outside.port) == [f"0100007F:{outside.port:04X}"]
