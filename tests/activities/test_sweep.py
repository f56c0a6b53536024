from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from activities.serving import Serving
from activities.sweep import PAGE, TURNS, Sweep
from ascertain.contracts.claim import ClaimRequest, Verdict
from ascertain.contracts.effect import Effect, Evidence, State
from ascertain.contracts.sweep import SweepReport, SweepRequest
from ascertain.errors import TemporalDown, Unavailable
from ascertain.ledger.model import ModelLedger

T0 = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Clock:
    def __init__(self):
        self.now = T0

    def __call__(self):
        return self.now


class KnownTasks:
    """Tasks of which a test says what Temporal knows."""

    def __init__(self, *, ended=(), broken=(), forgotten=()):
        self.asked = []
        self._ended = {*ended, *forgotten}
        self._forgotten = set(forgotten)
        self._broken = set(broken)

    async def ended(self, task_id):
        self.asked.append(task_id)
        if task_id in self._broken:
            raise TemporalDown(f"no answer for {task_id}")
        return "terminated" if task_id in self._ended else None

    async def ascertain(self, task_id):
        return task_id not in self._forgotten


def name(number):
    return f"task-{number:04}"


async def ledger_of(count, clock):
    """Effects in flight under a lease that is over, each a second younger than the one before."""
    ledger = ModelLedger(clock)
    for number in range(count):
        clock.now += timedelta(seconds=1)
        effect = Effect(
            effect_id=f"ef1-{number:04}",
            task_id=name(number),
            step="do",
            kind="toy.fact",
            partition="p",
            input={},
        )
        request = ClaimRequest(
            effect=effect,
            fingerprint="f",
            frozen=b"",
            owner="w",
            lease=timedelta(seconds=1),
            budget=5,
            resend_for=None,
        )
        await ledger.claim(request)
    clock.now += MINUTE * 2
    return ledger


async def swept(ledger, tasks):
    sweep = Sweep(Serving(ledger, {}, "w"), tasks)
    report, at = SweepReport(), None
    while True:
        request = SweepRequest(older_than=MINUTE, at=at)
        page = await ActivityEnvironment().run(sweep.sweep, request)
        report, at = report.plus(page.report), page.next
        if at is None:
            return report


async def test_every_effect_is_looked_at_however_many_there_are_the_oldest_first():
    ledger = await ledger_of(PAGE + 50, Clock())
    tasks = KnownTasks(ended={name(PAGE + 49)})
    report = await swept(ledger, tasks)
    assert tasks.asked == [name(number) for number in range(PAGE + 50)]
    assert (report.looked_at, report.orphaned) == (PAGE + 50, 1)
    assert report.orphans == (f"ef1-{PAGE + 49:04}",)


async def test_an_orphan_whose_task_is_forgotten_is_told_with_the_task_that_must_be_submitted():
    clock = Clock()
    ledger = await ledger_of(4, clock)
    report = await swept(ledger, KnownTasks(ended=[name(1)], forgotten=[name(3)]))
    assert (report.looked_at, report.orphaned) == (4, 2)
    assert report.orphans == ("ef1-0001", "ef1-0003")
    assert report.unasked == {"ef1-0003": name(3)}


async def test_an_effect_that_cannot_be_looked_into_keeps_no_other_from_being_found():
    ledger = await ledger_of(3, Clock())
    tasks = KnownTasks(ended={name(0), name(2)}, broken={name(1)})
    report = await swept(ledger, tasks)
    assert report.orphans == ("ef1-0000", "ef1-0002")
    assert report.failed == 1
    assert "no answer for task-0001" in report.faults[0]
    for effect_id in report.orphans:
        assert (await ledger.inspect(effect_id)).row.state is State.UNKNOWN


async def test_a_page_of_which_nothing_could_be_looked_into_is_tried_again():
    ledger = await ledger_of(2, Clock())
    with pytest.raises(Unavailable, match="none of 2"):
        await swept(ledger, KnownTasks(broken={name(0), name(1)}))


async def test_what_waits_for_a_person_is_looked_at_once_in_a_round_of_sweeps():
    clock = Clock()
    ledger = await ledger_of(20, clock)
    for number in range(20):
        row = (await ledger.inspect(f"ef1-{number:04}")).row
        await ledger.fence(row.effect_id, row.version, "w")
        await quarantine(ledger, row.effect_id)
    tasks = KnownTasks()
    for _ in range(TURNS):
        clock.now += MINUTE
        await swept(ledger, tasks)
    assert sorted(tasks.asked) == [name(number) for number in range(20)]


async def quarantine(ledger, effect_id):
    row = (await ledger.inspect(effect_id)).row
    evidence = Evidence(source="rule", rule="test")
    await ledger.converge(effect_id, row.version, Verdict(State.QUARANTINED, evidence), "w")
