"""Gates that a rule closes: who may open them, and how few claims are let through to find out."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from ascertain.contracts.breaker import BY, Rule, Trip
from ascertain.contracts.claim import Granted, Paused
from ascertain.contracts.effect import State
from ascertain.contracts.gate import Gate, GateChange
from ascertain.ledger.postgres import PostgresLedger
from ascertain.ports import Ledger
from tests.ledger.conftest import T0, Clock
from tests.ledger.steps import (
    LEASE,
    effect,
    granted,
    moved,
    not_done,
    request,
    settled,
    standing,
    unknown,
    verdict,
)
from tests.ledger.test_epoch import begun, restored

MINUTE = timedelta(minutes=1)
REASON = "unknown_share: 6 of 10 attempts within 300 s ended in doubt (60%; limit 30%)"


def trip(**changes: Any) -> Trip:
    fields: dict[str, Any] = {
        "partition": "p",
        "rule": Rule.UNKNOWN_SHARE,
        "reason": REASON,
        "counted_for": 5 * MINUTE,
        "probes": 2,
        "probe_after": MINUTE,
    }
    return Trip(**{**fields, **changes})


def person(*, paused: bool, request_id: str = "r") -> GateChange:
    return GateChange(
        partition="p", paused=paused, by="alice", reason="incident", request_id=request_id
    )


async def closed(ledger: Ledger, **changes: Any) -> Gate:
    gate = await ledger.trip(trip(**changes))
    assert gate is not None
    return gate


async def probe(ledger: Ledger, clock: Clock) -> Gate:
    """A closed gate whose time to probe has come."""
    gate = await closed(ledger)
    await clock.advance(MINUTE)
    return gate


async def test_a_rule_closes_a_gate_and_says_which_it_is_and_with_which_numbers(
    either: Ledger, clock: Clock
) -> None:
    gate = await closed(either)
    assert (gate.paused, gate.by, gate.rule, gate.reason) == (True, BY, "unknown_share", REASON)
    assert gate.probe_from == clock.now + MINUTE
    assert await either.gates() == [gate]
    answer = await either.claim(request())
    assert answer == Paused("p", gate.since, BY, REASON)
    assert await either.trip(trip(reason="another worker")) is None
    assert isinstance(await either.claim(request("q", effect=effect("q", partition="q"))), Granted)


async def test_a_gate_that_a_person_closed_is_never_the_breakers(
    either: Ledger, clock: Clock
) -> None:
    gate = await either.set_gate(person(paused=True))
    assert await either.trip(trip(lasts=True)) is None
    await clock.advance(5 * MINUTE)
    assert isinstance(await either.claim(request()), Paused)
    assert await either.judge_probes("p") is None
    assert await either.gates() == [gate]


async def test_a_person_who_pauses_what_a_rule_has_closed_owns_the_pause(
    either: Ledger, clock: Clock
) -> None:
    await probe(either, clock)
    lease = await granted(either)
    gate = await either.set_gate(person(paused=True))
    assert (gate.by, gate.reason, gate.rule, gate.probing) == ("alice", "incident", None, ())
    assert gate.since == clock.now
    await moved(either.record(lease, settled()))
    assert await either.judge_probes("p") is None
    assert isinstance(await either.claim(request("2")), Paused)


async def test_a_person_ends_the_breakers_closing_and_what_was_counted_before_closes_nothing(
    either: Ledger, clock: Clock
) -> None:
    await closed(either)
    opened = await either.set_gate(person(paused=False))
    assert (opened.paused, opened.by, opened.rule) == (False, "alice", None)
    await granted(either)
    assert await either.trip(trip()) is None
    await clock.advance(5 * MINUTE)
    assert (await closed(either)).since == clock.now


async def test_only_so_many_claims_are_let_through_and_none_before_it_is_time(
    either: Ledger, clock: Clock
) -> None:
    await closed(either)
    await clock.advance(MINUTE - timedelta(microseconds=1))
    assert isinstance(await either.claim(request("1")), Paused)
    await clock.advance(timedelta(microseconds=1))
    await granted(either, "1")
    await granted(either, "2")
    third = await either.claim(request("3"))
    assert isinstance(third, Paused)
    assert third.half_open
    (gate,) = await either.gates()
    assert gate.probing == ("ef1-1", "ef1-2")


async def test_claims_that_come_at_once_are_not_let_through_in_a_crowd(
    ledger: PostgresLedger, clock: Clock
) -> None:
    await probe(ledger, clock)
    names = [str(number) for number in range(20)]
    answers = await asyncio.gather(*(ledger.claim(request(name)) for name in names))
    assert sum(isinstance(answer, Granted) for answer in answers) == 2


async def test_a_gate_of_every_partition_lets_nothing_through_to_probe(
    either: Ledger, clock: Clock
) -> None:
    await probe(either, clock)
    change = person(paused=True).model_copy(update={"partition": "*"})
    await either.set_gate(change)
    answer = await either.claim(request())
    assert isinstance(answer, Paused)
    assert answer.partition == "*"


async def test_as_many_answers_as_there_are_probes_open_the_gate(
    either: Ledger, clock: Clock
) -> None:
    await probe(either, clock)
    first, second = await granted(either, "1"), await granted(either, "2")
    await moved(either.record(first, settled("fact-1")))
    assert await either.judge_probes("p") is None
    await moved(either.record(second, settled("fact-2")))
    gate = await either.judge_probes("p")
    assert gate is not None
    assert (gate.paused, gate.by, gate.reason) == (False, BY, "its probes were answered: 2 of 2")
    await granted(either, "3")


@pytest.mark.parametrize(
    ("ending", "state"), [(unknown(), State.UNKNOWN), (not_done(), State.CLEAR)]
)
async def test_a_probe_that_comes_to_nothing_closes_the_gate_again(
    either: Ledger, clock: Clock, ending: Any, state: State
) -> None:
    before = await probe(either, clock)
    await moved(either.record(await granted(either, "1"), settled()))
    await moved(either.record(await granted(either, "2"), ending))
    gate = await either.judge_probes("p")
    assert gate is not None
    assert (gate.paused, gate.since, gate.probing) == (True, before.since, ())
    assert gate.reason == f"{REASON}; probe ef1-2 came to {state}"
    assert gate.probe_from == clock.now + MINUTE
    assert isinstance(await either.claim(request("3")), Paused)
    await clock.advance(MINUTE)
    await granted(either, "3")


async def test_what_was_stopped_by_its_budget_was_no_probe(either: Ledger, clock: Clock) -> None:
    await moved(either.record(await granted(either), not_done()))
    await probe(either, clock)
    await either.claim(request(budget=1))
    assert (await standing(either)).state is State.QUARANTINED
    gate = await either.judge_probes("p")
    assert gate is not None
    assert (gate.paused, gate.probing) == (True, ())
    await granted(either, "2")


async def test_a_probe_may_be_renewed_before_its_late_send(either: Ledger, clock: Clock) -> None:
    await probe(either, clock)
    lease, _ = await granted(either, "1"), await granted(either, "2")
    await moved(either.renew(lease, LEASE))


async def test_a_rule_that_still_holds_puts_the_probing_off(either: Ledger, clock: Clock) -> None:
    first = await closed(either, rule=Rule.LAG, lasts=True, reason="lag: 61 s")
    await clock.advance(MINUTE)
    again = await closed(either, rule=Rule.LAG, lasts=True, reason="lag: 121 s")
    assert (again.since, again.reason) == (first.since, "lag: 121 s")
    assert again.probe_from == clock.now + MINUTE
    assert isinstance(await either.claim(request()), Paused)


async def test_a_chunk_is_let_through_to_probe_as_single_claims_are(
    either: Ledger, clock: Clock
) -> None:
    await granted(either, "0")
    await probe(either, clock)
    asked = [request(str(number), owner="w") for number in range(4)]
    told = await either.claim_many(asked)
    assert [type(answer) for answer in told] == [type(None), Granted, Granted, Paused]


async def test_a_chunk_that_may_have_been_forgotten_takes_no_place_of_a_gate_that_is_probed(
    either: Ledger, clock: Clock
) -> None:
    await probe(either, clock)
    epoch = await restored(either)
    lost = [begun(T0, str(number), owner="w") for number in range(3)]
    assert await either.claim_many(lost) == [None] * 3
    assert [(await standing(either, str(number))).state for number in range(3)] == [
        State.IN_FLIGHT
    ] * 3
    (gate,) = await either.gates()
    assert gate.probing == ()
    asked = [begun(epoch.until, str(number), owner="w") for number in range(3, 6)]
    told = await either.claim_many(asked)
    assert [type(answer) for answer in told] == [Granted, Granted, Paused]


async def test_a_question_is_asked_while_a_rule_keeps_the_gate_closed(either: Ledger) -> None:
    await moved(either.record(await granted(either), unknown()))
    await closed(either)
    row = await standing(either)
    await moved(either.converge(row.effect_id, row.version, verdict(State.SETTLED), "reconcile"))


async def test_what_is_in_doubt_is_told_by_partition_and_kind_with_the_oldest(
    either: Ledger, clock: Clock
) -> None:
    await moved(either.record(await granted(either, "1"), unknown()))
    await clock.advance(MINUTE)
    await moved(either.record(await granted(either, "2"), unknown()))
    await moved(either.record(await granted(either, "3"), settled()))
    (doubt,) = await either.doubts()
    assert (doubt.partition, doubt.kind, doubt.count, doubt.oldest) == ("p", "toy.fact", 2, MINUTE)


async def test_an_outage_is_one_notice_for_all_that_waits_until_it_is_over(
    either: Ledger, clock: Clock
) -> None:
    begun = clock.now
    for name in ("1", "2"):
        await moved(either.record(await granted(either, name), unknown()))
    await moved(either.record(await granted(either, "3"), settled()))
    await either.note_outage("p", "toy.fact", "refused")
    await clock.advance(MINUTE)
    outage = await either.note_outage("p", "toy.fact", "503")
    assert (outage.since, outage.reason, outage.waiting) == (begun, "503", 2)
    assert await either.outages() == [outage]
    assert outage.words == "toy.fact cannot be asked since 2026-01-01 12:00:00 UTC; 2 waiting"
    await either.end_outage("p", "toy.fact")
    assert await either.outages() == []
    assert (await either.note_outage("p", "toy.fact", "again")).since == clock.now


async def test_an_outage_for_which_nothing_waits_any_more_is_no_news(either: Ledger) -> None:
    await moved(either.record(await granted(either), unknown()))
    await either.note_outage("p", "toy.fact", "refused")
    row = await standing(either)
    await moved(either.converge(row.effect_id, row.version, verdict(State.SETTLED), "reconcile"))
    assert await either.outages() == []


async def test_every_closing_and_opening_by_a_rule_stays_on_record(
    ledger: PostgresLedger, clock: Clock
) -> None:
    await probe(ledger, clock)
    await moved(ledger.record(await granted(ledger, "1"), unknown()))
    await ledger.judge_probes("p")
    await clock.advance(MINUTE)
    for name in ("2", "3"):
        await moved(ledger.record(await granted(ledger, name), settled(f"fact-{name}")))
    await ledger.judge_probes("p")
    told = await clock.connection.fetch(
        "select paused, by, reason from ascertain.gate_requests order by at"
    )
    assert [tuple(record) for record in told] == [
        (True, BY, REASON),
        (True, BY, f"{REASON}; probe ef1-1 came to UNKNOWN"),
        (False, BY, "its probes were answered: 2 of 2"),
    ]
