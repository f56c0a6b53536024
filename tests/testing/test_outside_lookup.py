"""What a question is answered, and when the answer can be believed."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from ascertain.testing.entry import ChangeEntry
from ascertain.testing.knob import (
    Answer,
    CutOff,
    Drop,
    JobKnobs,
    Knobs,
    LookupKnobs,
    Rule,
    Silence,
    SubmitKnobs,
)
from ascertain.testing.outside import Outside


def behave(outside: Outside, lookup: LookupKnobs) -> None:
    outside.rules.knobs = Knobs(lookup=lookup)


async def pay(http: httpx.AsyncClient, number: int, amount: int = 100) -> str:
    reply = await http.post(
        "/facts",
        json={"reference": f"inv-{number}", "amount": amount},
        headers={"Idempotency-Key": f"k-{number}"},
    )
    return str(reply.json()["id"])


async def found(http: httpx.AsyncClient, **query: str | int) -> list[str]:
    reply = await http.get("/facts", params=query)
    assert reply.status_code == 200
    return [str(fact["id"]) for fact in reply.json()["data"]]


async def test_a_fact_is_found_by_key_reference_and_amount(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    first, second = await pay(http, 1, 100), await pay(http, 2, 250)

    assert await found(http, key="k-1") == [first]
    assert await found(http, reference="inv-2") == [second]
    assert await found(http, amount=250) == [second]
    assert await found(http, key="k-1", amount=250) == []
    assert await found(http, key="k-1", reference="inv-2") == []
    assert await found(http) == [first, second]
    assert (await http.get(f"/facts/{first}")).json()["reference"] == "inv-1"
    assert (await http.get("/facts/inv-2")).json()["id"] == second


async def test_two_facts_of_one_amount_cannot_be_told_apart_by_amount(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    both = [await pay(http, 1), await pay(http, 2)]

    assert await found(http, amount=100) == both


@pytest.mark.parametrize("query", [{"key": "k-1"}, {"reference": "inv-1", "amount": "1"}, {}])
async def test_only_what_the_provider_offers_can_be_asked(
    outside: Outside, http: httpx.AsyncClient, query: dict[str, str]
) -> None:
    await pay(http, 1)
    behave(outside, LookupKnobs(by=("amount",)))

    assert (await http.get("/facts", params=query)).status_code == 400


async def test_a_provider_without_lookup_refuses_every_question(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    fact = await pay(http, 1)
    behave(outside, LookupKnobs(by=()))

    for path in ("/facts", "/facts?key=k-1", f"/facts/{fact}", "/jobs/job-000001"):
        assert (await http.get(path)).status_code == 400


async def test_a_lookup_within_the_lag_does_not_see_the_fact(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    fact = await pay(http, 1)
    behave(outside, LookupKnobs(lag_s=3600))

    assert await found(http, reference="inv-1") == []
    assert await found(http) == []
    assert (await http.get("/facts/inv-1")).status_code == 404
    assert (await http.get(f"/facts/{fact}")).status_code == 200
    assert len(outside.books.facts_of("inv-1")) == 1


async def test_a_fact_becomes_visible_when_the_lag_is_over(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    behave(outside, LookupKnobs(lag_s=0.2))
    fact = await pay(http, 1)

    async with asyncio.timeout(60):
        while not await found(http, key="k-1"):
            pass
    assert await found(http, key="k-1") == [fact]
    assert outside.books.lookups[-1].shown == 1


async def test_pages_hold_every_fact_once(outside: Outside, http: httpx.AsyncClient) -> None:
    behave(outside, LookupKnobs(page_size=2))
    paid = [await pay(http, number) for number in range(5)]

    seen: list[str] = []
    sizes: list[int] = []
    query: dict[str, str | int] = {"amount": 100, "limit": 50}
    while True:
        page = (await http.get("/facts", params=query)).json()
        seen += [fact["id"] for fact in page["data"]]
        sizes.append(len(page["data"]))
        if not page["has_more"]:
            break
        query["cursor"] = page["cursor"]
    assert seen == paid
    assert sizes == [2, 2, 1]


async def test_a_full_last_page_does_not_promise_another(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    behave(outside, LookupKnobs(page_size=2))
    for number in range(2):
        await pay(http, number)

    assert (await http.get("/facts")).json()["has_more"] is False


async def test_a_cursor_of_somebody_else_is_refused(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    assert (await http.get("/facts", params={"cursor": "pi_123"})).status_code == 400


async def test_a_lookup_can_fail_in_every_way_a_submit_can(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    await pay(http, 1)
    faults = (
        (Answer(status=503), None),
        (Drop(), httpx.ReadError),
        (Silence(seconds=0.05), httpx.RemoteProtocolError),
        (CutOff(keep_bytes=5), httpx.RemoteProtocolError),
    )
    for fault, error in faults:
        behave(outside, LookupKnobs(reply=fault))
        if error is None:
            assert (await http.get("/facts?key=k-1")).status_code == 503
            continue
        with pytest.raises(error):
            await http.get("/facts?key=k-1")
    assert [entry.status for entry in outside.books.lookups] == [503, 0, 0, 200]


async def test_only_the_first_question_about_a_key_fails(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    fact = await pay(http, 1)
    outside.rules.add(Rule(key="k-1", attempt=1, lookup=LookupKnobs(reply=Answer(status=500))))

    assert (await http.get("/facts?key=k-1")).status_code == 500
    assert await found(http, key="k-1") == [fact]


async def test_a_removed_fact_is_hidden_and_stays_in_the_books(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    fact = await pay(http, 1)
    outside.books.write(ChangeEntry(id=fact, removed=True))

    assert await found(http, key="k-1") == []
    assert (await http.get(f"/facts/{fact}")).status_code == 404
    assert [entry.removed for entry in outside.books.facts_of("inv-1")] == [True]


@pytest.mark.parametrize(
    ("later", "status"),
    [((3600, 7200), "404"), ((0, 3600), "running"), ((0.1, 0.2), "succeeded")],
)
async def test_a_job_is_first_unknown_then_running_then_done(
    outside: Outside, http: httpx.AsyncClient, later: tuple[float, float], status: str
) -> None:
    runs, is_done = later
    timeline = ((0, "not_found"), (runs, "running"), (is_done, "succeeded"))
    job = JobKnobs.model_validate({"timeline": timeline})
    outside.rules.knobs = Knobs(submit=SubmitKnobs(job=job))
    accepted = await http.post("/facts", json={"reference": "inv-1"})
    assert accepted.status_code == 202

    seen: list[str] = []
    async with asyncio.timeout(60):
        while status not in seen:
            reply = await http.get(accepted.headers["Location"])
            seen.append("404" if reply.status_code == 404 else reply.json()["status"])
    # How much of it is seen is a matter of haste.
    order = list(dict.fromkeys(seen))
    assert order == [one for one in ("404", "running", "succeeded") if one in order]
    facts = outside.books.facts_of("inv-1")
    assert len(facts) == (status == "succeeded")
    for fact in facts:
        assert (await http.get(accepted.headers["Location"])).json()["fact"]["id"] == fact.id


async def test_a_failed_job_makes_no_fact(outside: Outside, http: httpx.AsyncClient) -> None:
    job = JobKnobs(timeline=((0, "failed"),))
    outside.rules.knobs = Knobs(submit=SubmitKnobs(job=job))
    accepted = await http.post("/facts", json={"reference": "inv-1"})

    status = (await http.get(accepted.headers["Location"])).json()
    assert (status["status"], "fact" in status) == ("failed", False)
    assert outside.books.facts == []


async def test_an_unknown_job_is_not_found(outside: Outside, http: httpx.AsyncClient) -> None:
    assert (await http.get("/jobs/job-000077")).status_code == 404
