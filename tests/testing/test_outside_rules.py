"""Which request meets which knobs."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from pydantic import ValidationError

from ascertain.testing.knob import (
    Answer,
    Dedupe,
    Drop,
    JobKnobs,
    Knobs,
    RateLimit,
    Rule,
    SubmitKnobs,
)
from ascertain.testing.outside import Outside


def answering(status: int) -> SubmitKnobs:
    return SubmitKnobs(commit="never", reply=Answer(status=status))


async def submit(http: httpx.AsyncClient, key: str, reference: str = "inv-1") -> int:
    reply = await http.post(
        "/facts", json={"reference": reference}, headers={"Idempotency-Key": key}
    )
    return reply.status_code


async def test_a_rule_of_the_next_two_requests_is_then_used_up(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    outside.rules.add(Rule(times=2, submit=answering(503)))

    assert [await submit(http, f"k-{number}") for number in range(3)] == [503, 503, 201]


async def test_a_script_is_played_in_order(outside: Outside, http: httpx.AsyncClient) -> None:
    for status in (500, 429, 504):
        outside.rules.add(Rule(times=1, submit=answering(status)))

    assert [await submit(http, "k-1") for _ in range(4)] == [500, 429, 504, 201]


async def test_a_rule_of_one_key_leaves_the_others_alone(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    outside.rules.add(Rule(key="k-bad", submit=answering(502)))

    assert [await submit(http, key) for key in ("k-1", "k-bad", "k-bad")] == [201, 502, 502]


async def test_a_rule_of_one_reference_leaves_the_others_alone(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    outside.rules.add(Rule(reference="inv-bad", submit=answering(502)))

    assert await submit(http, "k-1", "inv-good") == 201
    assert await submit(http, "k-2", "inv-bad") == 502


async def test_a_rule_can_be_for_one_attempt_of_each_key(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    outside.rules.add(Rule(attempt=1, submit=answering(503)))

    assert [await submit(http, key) for key in ("a", "a", "b", "b")] == [503, 201, 503, 201]


async def test_the_rule_of_a_key_comes_before_that_of_a_reference_and_the_general_one(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    outside.rules.add(Rule(submit=answering(500)))
    outside.rules.add(Rule(reference="inv-1", submit=answering(502)))
    outside.rules.add(Rule(key="k-1", times=1, submit=answering(504)))

    assert [await submit(http, "k-1") for _ in range(2)] == [504, 502]
    assert await submit(http, "k-2", "inv-2") == 500


async def test_a_rule_of_a_key_and_a_reference_needs_both(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    outside.rules.add(Rule(key="k-1", reference="inv-1", submit=answering(503)))

    assert await submit(http, "k-1", "inv-2") == 201
    assert await submit(http, "k-2", "inv-1") == 201
    assert await submit(http, "k-1", "inv-1") == 503


async def test_a_used_up_rule_behind_a_standing_one_is_not_used_again(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    outside.rules.add(Rule(attempt=9, submit=answering(500)))
    outside.rules.add(Rule(times=1, submit=answering(503)))

    assert [await submit(http, "k-1") for _ in range(3)] == [503, 201, 201]


async def test_a_rule_that_sets_one_part_leaves_the_other_parts(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    outside.rules.knobs = Knobs(submit=answering(503))
    outside.rules.add(Rule(key="k-1", dedupe=Dedupe(by="key")))

    assert await submit(http, "k-1") == 503


async def test_a_used_up_rule_does_not_hide_the_one_behind_it(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    outside.rules.add(Rule(attempt=2, times=1, submit=answering(500)))
    outside.rules.add(Rule(times=1, submit=answering(503)))

    assert [await submit(http, "k-1") for _ in range(3)] == [503, 500, 201]


async def test_more_than_the_rate_is_told_to_slow_down_and_does_nothing(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    limit = RateLimit(per_second=0, retry_after="-5")
    outside.rules.knobs = Knobs(rate_limit=limit, submit=SubmitKnobs(reply=Drop()))
    reply = await http.post("/facts", json={"reference": "inv-1"})

    assert (reply.status_code, reply.headers["Retry-After"]) == (429, "-5")
    assert outside.books.facts == []
    assert outside.books.submits[0].ruling == "throttled"


async def test_the_rate_counts_a_second_and_not_the_whole_run(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    outside.rules.knobs = Knobs(rate_limit=RateLimit(per_second=2, retry_after=None))
    at_once = await asyncio.gather(*(submit(http, f"k-{number}") for number in range(20)))
    assert set(at_once) == {201, 429}
    seen: list[int] = []
    async with asyncio.timeout(60):
        while 201 not in seen:
            seen.append(await submit(http, f"later-{len(seen)}"))

    assert len(outside.books.facts) == at_once.count(201) + 1


def test_a_rule_must_say_something() -> None:
    with pytest.raises(ValidationError, match="at least one of"):
        Rule(key="k-1")


def test_a_timeline_must_be_in_order() -> None:
    with pytest.raises(ValidationError, match="in order of time"):
        JobKnobs(timeline=((2, "running"), (1, "succeeded")))
