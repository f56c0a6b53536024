"""What a worker counts, and when that closes a gate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from activities.breaker import ATTEMPTS, Breakers, failed, look, met
from activities.outage import KNOWN_FOR_S, Outages
from ascertain.contracts import outcome
from ascertain.contracts.breaker import BY, Breaker, Rule
from ascertain.contracts.claim import Paused
from ascertain.contracts.effect import Evidence, State
from ascertain.contracts.gate import GateChange
from ascertain.errors import LedgerDown
from ascertain.ledger.model import ModelLedger
from tests.ledger.steps import (
    effect,
    granted,
    moved,
    not_done,
    refused,
    request,
    settled,
    standing,
    unknown,
    verdict,
)

SETTLE = verdict(State.SETTLED)
T0 = datetime(2026, 1, 1, tzinfo=UTC)
EUR = effect(partition="p")


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds

    @property
    def now(self):
        return T0 + timedelta(seconds=self.seconds)


def counted(breakers, *endings, of=EUR):
    for ending in endings:
        breakers.count(of, ending)
    return [trip.rule for trip in breakers.trips(of)]


def test_a_larger_share_of_doubt_than_the_limit_closes():
    breakers = Breakers([Breaker(unknown_share=0.5, of_at_least=4)])
    assert counted(breakers, unknown(), unknown(), settled()) == []  # three say nothing yet
    assert counted(breakers, settled()) == []  # half is not more than half
    assert counted(breakers, unknown()) == [Rule.UNKNOWN_SHARE]
    (trip,) = breakers.trips(EUR)
    assert trip.reason == (
        "unknown_share: 3 of 5 attempts within 300 s ended in doubt (60%; limit 50%)"
    )


def test_what_was_provably_not_done_is_an_error_and_no_doubt_and_a_no_is_neither():
    rules = Breaker(unknown_share=0.1, error_share=0.5, of_at_least=2)
    assert counted(Breakers([rules]), not_done(), not_done()) == [Rule.ERROR_SHARE]
    assert counted(Breakers([rules]), refused(), refused()) == []


def test_what_our_own_permit_stopped_says_nothing_of_the_outside():
    breakers = Breakers([Breaker(error_share=0, of_at_least=1)])
    seen = Evidence(source="phase", rule="permit_lost")
    assert counted(breakers, outcome.NotDone(error_class="permit_lost", evidence=seen)) == []


def test_attempts_that_are_older_than_the_window_do_not_count():
    clock = Clock()
    window = timedelta(seconds=10)
    breakers = Breakers([Breaker(unknown_share=0, of_at_least=2, window=window)], clock)
    counted(breakers, unknown())
    clock.seconds = 10.5
    assert counted(breakers, unknown()) == []
    assert counted(breakers, unknown()) == [Rule.UNKNOWN_SHARE]


def test_a_breaker_of_one_partition_or_kind_is_about_nothing_else():
    here = Breakers([Breaker(partition="p", kind="toy.fact", unknown_share=0, of_at_least=1)])
    for other in (effect(partition="q"), effect(partition="p", kind="toy.other")):
        assert counted(here, unknown(), of=other) == []
    assert counted(here, unknown()) == [Rule.UNKNOWN_SHARE]
    (trip,) = here.trips(EUR)
    assert trip.reason.startswith("unknown_share of kind toy.fact: 1 of 1 attempts")


def test_memory_is_bounded_and_nothing_is_kept_where_no_rule_is():
    breakers = Breakers([Breaker(partition="p", unknown_share=0.9)])
    for _ in range(ATTEMPTS + 5):
        breakers.count(EUR, settled())
    breakers.count(effect(partition="q"), settled())
    assert [len(seen) for seen in breakers._seen.values()] == [ATTEMPTS]


@pytest.mark.parametrize(
    "given", [{}, {"unknown_share": 1}, {"error_share": -0.1}, {"lag": 0}, {"unknown_shares": 0.5}]
)
def test_a_breaker_that_can_never_close_or_is_misspelt_is_refused(given):
    with pytest.raises(ValidationError):
        Breaker.model_validate(given)


async def test_the_attempt_after_which_a_gate_was_closed_says_so_on_its_trail():
    clock = Clock()
    ledger = ModelLedger(lambda: clock.now)
    breakers = Breakers([Breaker(unknown_share=0.3, of_at_least=1)], clock)
    await moved(ledger.record(await granted(ledger), unknown()))
    breakers.count(EUR, unknown())
    await failed(breakers, ledger, EUR)
    (gate,) = await ledger.gates()
    assert (gate.by, gate.rule) == (BY, "unknown_share")
    told = (await ledger.audit(EUR.effect_id))[-1]
    assert (told.move, told.actor, told.evidence.body) == ("note", BY, {"rule": "unknown_share"})
    assert "the gate of p was closed: unknown_share: 1 of 1 attempts" in told.evidence.detail
    assert list(breakers.trips(EUR)) == []  # what closed it is not counted twice


async def test_what_fails_behind_a_gate_that_opens_little_by_little_closes_it_at_once():
    clock = Clock()
    ledger = ModelLedger(lambda: clock.now)
    breakers = Breakers([Breaker(unknown_share=0.3, of_at_least=2)], clock)
    breakers.count(EUR, unknown())  # before the gate was moved, so it says nothing of it now
    clock.seconds = 1
    for paused, ramp in ((True, None), (False, timedelta(minutes=10))):
        await ledger.set_gate(
            GateChange(
                partition="p", paused=paused, by="ada", reason="x", request_id=str(ramp), ramp=ramp
            )
        )
    clock.seconds = 2
    breakers.count(EUR, unknown())
    await failed(breakers, ledger, EUR)
    assert not (await ledger.gates())[0].paused
    told = await ledger.claim(request())
    assert isinstance(told, Paused)
    assert told.turn is not None
    breakers.forget("p")
    for _ in range(2):
        breakers.count(EUR, unknown())
    await met(breakers, ledger, "p", told)  # whose turn has not come says nothing of the outside
    for trip in breakers.trips(EUR):
        await ledger.trip(trip)
    assert (await ledger.gates())[0].rule == "unknown_share"


class DownLedger(ModelLedger):
    async def judge_probes(self, partition):
        raise LedgerDown("no answer")


async def test_a_ledger_that_is_down_keeps_no_attempt_from_going_on():
    ledger = DownLedger(lambda: T0)
    breakers = Breakers([Breaker(unknown_share=0.3, of_at_least=1)])
    breakers.count(EUR, unknown())
    await failed(breakers, ledger, EUR)
    assert await ledger.gates() == []


async def test_a_sweep_closes_on_lag_and_opens_what_its_probes_allow():
    clock = Clock()
    ledger = ModelLedger(lambda: clock.now)
    limit = timedelta(seconds=60)
    breakers = Breakers([Breaker(lag=limit, probes=1, probe_after=timedelta(seconds=5))], clock)
    await moved(ledger.record(await granted(ledger), unknown()))
    clock.seconds = 60
    await look(breakers, ledger)
    assert await ledger.gates() == []
    clock.seconds = 61
    await look(breakers, ledger)
    (gate,) = await ledger.gates()
    assert gate.reason == "lag: 1 in doubt, the oldest for 61 s (limit 60 s)"
    clock.seconds = 66
    await look(breakers, ledger)  # it still holds, so nothing is let through yet
    assert (await ledger.gates())[0].probe_from == clock.now + timedelta(seconds=5)
    row = await standing(ledger)
    await ledger.converge(row.effect_id, row.version, SETTLE, "reconcile")
    clock.seconds = 71
    await look(breakers, ledger)
    await moved(ledger.record(await granted(ledger, "2"), settled("fact-2")))
    await look(breakers, ledger)
    assert not (await ledger.gates())[0].paused


class CountingLedger(ModelLedger):
    asked = 0

    async def note_outage(self, partition, kind, reason):
        self.asked += 1
        return await super().note_outage(partition, kind, reason)

    async def end_outage(self, partition, kind):
        self.asked += 1
        return await super().end_outage(partition, kind)


async def test_a_thousand_questions_in_vain_are_one_statement_and_one_notice():
    clock = Clock()
    ledger = CountingLedger(lambda: clock.now)
    outages = Outages(clock)
    await moved(ledger.record(await granted(ledger), unknown()))
    row = await standing(ledger)
    clock.seconds = 1
    said = {await outages.down(ledger, row, "503") for _ in range(1000)}
    notice = "toy.fact cannot be asked since 2026-01-01 00:00:01 UTC; 1 waiting in p (503)"
    assert said == {(notice, 1)}
    assert ledger.asked == 1
    for _ in range(1000):
        await outages.up(ledger, row)
    assert ledger.asked == 2
    assert await ledger.outages() == []
    clock.seconds += KNOWN_FOR_S
    await outages.up(ledger, row)
    assert ledger.asked == 3
