"""A held task is told how its gate stands now, and not how it stood when the task last looked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ascertain.cli import held, wording
from ascertain.contracts.gate import Gate
from ascertain.ledger.gate import turn_of
from tests.cli.cases import EFFECT, START, Night, never_left, text

WEEK = timedelta(days=7)
NOW = START + timedelta(days=1)


async def held_by(*gates):
    """A task that heard at its last look of a ramp that had just begun; the gates are as they are now."""
    night = Night()
    await night.attempt(never_left())
    known = await night.known(doing="held")
    long_ago = {"reason": "opening until then, 1% now", "turn_at": START}
    opened = known.status.open.model_copy(update=long_ago)
    status = known.status.model_copy(update={"open": opened})
    return held.as_it_is_now(replace(known, status=status, gates=gates, at=NOW))


def gate(partition, *, paused=False, ramp=None):
    until = None if ramp is None else START + ramp
    return Gate(
        partition=partition, paused=paused, since=START, by="bo", reason="odd", ramp_until=until
    )


async def test_a_held_task_is_told_how_far_its_gate_is_open_now():
    turn = turn_of(EFFECT, START, START + WEEK)
    told = text(await held_by(gate("p", ramp=WEEK)))
    assert f"waits before step charge for its turn at {wording.moment(turn)}" in told
    assert f"opening until {wording.moment(START + WEEK)}, 14% now; this one from" in told
    assert "1% now" not in told.replace("14% now", "")


async def test_a_gate_that_was_paused_again_is_told_as_paused_and_not_as_opening():
    known = await held_by(gate("p", paused=True), gate("elsewhere", ramp=WEEK))
    told = text(known)
    assert "waits before step charge, because its partition p is paused." in told
    assert "paused by bo: odd." in told
    assert "opening" not in told
    assert "Open the gate again, once the reason for the pause is gone." in told


async def test_of_two_gates_the_one_that_is_paused_is_told_and_else_the_later_turn():
    both = await held_by(gate("*", ramp=WEEK), gate("p", paused=True))
    assert both.status.open.turn_at is None
    both = await held_by(gate("*", ramp=WEEK), gate("p", ramp=2 * WEEK))
    assert both.status.open.turn_at == turn_of(EFFECT, START, START + 2 * WEEK)


@pytest.mark.parametrize("now", [gate("p"), gate("p", ramp=timedelta(hours=1))])
async def test_a_task_that_its_gate_lets_through_by_now_is_not_told_as_held(now):
    told = text(await held_by(now))
    assert "is at step charge" in told
    assert "it is let through now: Partition p is open since" in told
    assert "ascertain resume p" not in told


async def test_where_no_ledger_tells_of_its_gate_a_held_task_is_told_as_it_last_looked():
    told = text(await held_by())
    assert "opening until then, 1% now" in told
