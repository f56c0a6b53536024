"""Keys are honoured as the knobs say, and no better."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from ascertain.testing.knob import Dedupe, Drop, Knobs, Rule, SubmitKnobs
from ascertain.testing.outside import Outside

INVOICE = {"reference": "inv-1", "amount": 1999}
OTHER = {"reference": "inv-1", "amount": 2999}


def behave(outside: Outside, dedupe: Dedupe, submit: SubmitKnobs | None = None) -> None:
    outside.rules.knobs = Knobs(dedupe=dedupe, submit=submit or SubmitKnobs())


async def submit(http: httpx.AsyncClient, body: object, key: str = "k-1") -> httpx.Response:
    return await http.post("/facts", json=body, headers={"Idempotency-Key": key})


async def test_without_dedupe_the_same_key_makes_two_facts(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    await submit(http, INVOICE)
    await submit(http, INVOICE)

    assert len(outside.books.facts_with_key("k-1")) == 2


@pytest.mark.parametrize("by", ["key", "key_and_body"])
async def test_a_known_key_is_answered_again_and_makes_no_second_fact(
    outside: Outside, http: httpx.AsyncClient, by: str
) -> None:
    behave(outside, Dedupe(by="key" if by == "key" else "key_and_body"))
    first = await submit(http, INVOICE)
    second = await submit(http, INVOICE)

    assert second.json() == first.json()
    assert second.status_code == first.status_code
    assert second.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert [entry.ruling for entry in outside.books.submits] == ["committed", "replayed"]
    assert len(outside.books.facts) == 1


async def test_dedupe_by_key_alone_does_not_look_at_the_body(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    behave(outside, Dedupe(by="key"))
    await submit(http, INVOICE)

    assert (await submit(http, OTHER)).json()["amount"] == 1999


@pytest.mark.parametrize("status", [400, 422])
async def test_the_second_submit_with_the_same_key_and_another_body_is_refused(
    outside: Outside, http: httpx.AsyncClient, status: int
) -> None:
    behave(outside, Dedupe(by="key_and_body", mismatch_status=400 if status == 400 else 422))
    await submit(http, INVOICE)
    second = await submit(http, OTHER)

    assert (second.status_code, second.json()["error"]["code"]) == (status, "key_reused")
    assert [fact.amount for fact in outside.books.facts] == [1999]


@pytest.mark.parametrize(("for_s", "facts"), [(0, 2), (3600, 1)])
async def test_a_key_is_honoured_for_its_life_only(
    outside: Outside, http: httpx.AsyncClient, for_s: float, facts: int
) -> None:
    behave(outside, Dedupe(by="key", for_s=for_s))
    await submit(http, INVOICE)
    await submit(http, INVOICE)

    assert len(outside.books.facts) == facts


async def test_a_key_whose_request_did_nothing_is_not_kept(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    behave(outside, Dedupe(by="key"))
    outside.rules.add(Rule(attempt=1, submit=SubmitKnobs(commit="never", reply=Drop())))
    with pytest.raises(httpx.ReadError):
        await submit(http, INVOICE)
    second = await submit(http, INVOICE)

    assert second.status_code == 201
    assert "Idempotent-Replayed" not in second.headers
    assert len(outside.books.facts) == 1


async def test_a_repeat_while_the_first_is_in_flight_gets_409(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    behave(outside, Dedupe(by="key", in_flight="conflict"), SubmitKnobs(commit=3600))
    first = asyncio.create_task(submit(http, INVOICE))
    await outside.books.wait_for("submit", key="k-1")
    second = await submit(http, INVOICE)

    assert (second.status_code, second.json()["error"]["code"]) == (409, "in_progress")
    first.cancel()


async def test_after_the_first_is_done_the_repeat_gets_its_answer(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    behave(outside, Dedupe(by="key", in_flight="conflict"), SubmitKnobs(commit=0.1))
    first = await submit(http, INVOICE)
    second = await submit(http, INVOICE)

    assert second.json() == first.json()
    assert len(outside.books.facts) == 1


async def test_a_repeat_can_also_wait_for_the_first(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    behave(outside, Dedupe(by="key", in_flight="wait"), SubmitKnobs(commit=0.2))
    first, second = await asyncio.gather(submit(http, INVOICE), submit(http, INVOICE))

    assert first.json() == second.json()
    assert len(outside.books.facts) == 1


@pytest.mark.parametrize("status", [409, 412, 422])
async def test_a_repeat_can_be_told_that_it_exists_already(
    outside: Outside, http: httpx.AsyncClient, status: int
) -> None:
    dedupe = Dedupe.model_validate({"by": "key", "repeat_status": status})
    behave(outside, dedupe)
    await submit(http, INVOICE)

    assert (await submit(http, INVOICE)).status_code == status
    assert len(outside.books.facts) == 1


async def test_a_reference_can_be_unique_whatever_the_key(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    behave(outside, Dedupe(unique_reference=422))
    await submit(http, INVOICE, "k-1")
    second = await submit(http, INVOICE, "k-2")

    assert (second.status_code, second.json()["error"]["code"]) == (422, "exists")
    assert len(outside.books.facts) == 1


async def test_put_if_absent_is_refused_when_the_reference_is_there(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    if_absent = {"If-None-Match": "*"}
    first = await http.put("/facts/picture-1", content=b"\x89PNG one", headers=if_absent)
    second = await http.put("/facts/picture-1", content=b"\x89PNG two", headers=if_absent)

    (fact,) = outside.books.facts_of("picture-1")
    assert (first.status_code, second.status_code) == (201, 412)
    assert (await http.get("/facts/picture-1")).json()["sha256"] == fact.sha256


async def test_put_without_a_condition_overwrites(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    await http.put("/facts/picture-1", content=b"one")
    await http.put("/facts/picture-1", content=b"two")

    assert len(outside.books.facts_of("picture-1")) == 2


async def test_many_at_once_with_one_key_make_one_fact(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    behave(outside, Dedupe(by="key_and_body"))
    replies = await asyncio.gather(*(submit(http, INVOICE) for _ in range(40)))

    assert {reply.json()["id"] for reply in replies} == {"fact-000001"}
    assert sorted(entry.attempt for entry in outside.books.submits) == list(range(1, 41))
