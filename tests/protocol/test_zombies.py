"""A worker that is frozen and thawed does no harm, and what it knew is not lost."""

from __future__ import annotations

import asyncio

import pytest

from ascertain.client import TaskEnded
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from drill.points import Point, Strike
from tests.protocol.deployment import step
from tests.protocol.kinds import MORTAL
from tests.waiting import wait_until


async def frozen_at(deployment, point, task_id, kind):
    """A task whose first worker freezes itself at the point; a second one takes over."""
    zombie = await deployment.worker(deployment.plan(point, Strike.FREEZE))
    effect = await deployment.submit(task_id, step(kind=kind))
    await wait_until(zombie.frozen)
    await deployment.worker()
    return zombie, effect


@pytest.mark.parametrize("kind", ["toy.asked", "toy.keyed", "toy.slow"])
async def test_a_worker_frozen_after_its_answer_is_refused_and_its_receipt_is_kept(
    deployments, kind
):
    deployment = await deployments(policy={**MORTAL, "heartbeat": 1})
    zombie, effect = await frozen_at(deployment, Point.AFTER_ANSWER, "zombie", kind)
    result = await deployment.result("zombie")
    zombie.thaw()
    await wait_until(lambda: _has_late_write(deployment, effect))
    assert result.outcome is TaskOutcome.DONE
    assert deployment.facts(effect) == 1
    row = await deployment.row(effect)
    assert row.state is State.SETTLED


@pytest.mark.parametrize("kind", ["toy.asked", "toy.slow"])
async def test_a_worker_frozen_after_its_claim_sends_nothing_once_it_is_thawed(deployments, kind):
    deployment = await deployments(policy={**MORTAL, "heartbeat": 1})
    zombie, effect = await frozen_at(deployment, Point.AFTER_CLAIM, "late", kind)
    await deployment.result("late")
    before = deployment.submits(effect)
    zombie.thaw()
    await wait_until(lambda: _has_late_write(deployment, effect))
    assert deployment.submits(effect) == before == 1


async def test_a_late_receipt_is_read_before_anything_is_asked_or_sent(deployments):
    deployment = await deployments(policy=MORTAL)
    zombie, effect = await frozen_at(deployment, Point.AFTER_ANSWER, "kept", "toy.neither")
    await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    zombie.thaw()
    await wait_until(lambda: _has_late_write(deployment, effect))
    await deployment.hurry("kept")
    result = await deployment.result("kept")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


@pytest.mark.parametrize("kind", ["toy.asked", "toy.slow"])
async def test_a_worker_frozen_before_its_claim_does_nothing_for_a_task_cancelled_meanwhile(
    deployments, kind
):
    deployment = await deployments(policy={**MORTAL, "heartbeat": 1})
    plan = deployment.plan(Point.BEFORE_CLAIM, Strike.FREEZE, match="/b")
    zombie = await deployment.worker(plan)
    await deployment.submit("gone", step("a"), step("b", kind))
    await wait_until(zombie.frozen)
    await deployment.client.cancel(deployment.id("gone"))
    await deployment.worker()
    with pytest.raises(TaskEnded, match="cancelled"):
        await deployment.result("gone")
    effect = deployment.effect("gone", "b")
    closed = await deployment.row(effect)
    assert (closed.state, closed.attempt) == (State.ABANDONED, 0)
    zombie.thaw()
    await zombie.drain()  # it finishes what it has in hand: a claim that comes too late
    assert (await deployment.row(effect)).version == closed.version
    assert deployment.submits(effect) == 0


async def test_two_workers_asked_for_one_effect_at_once_make_one_fact(deployments):
    deployment = await deployments()
    await asyncio.gather(deployment.worker(), deployment.worker())
    effects = [await deployment.submit(f"race-{i}", step(kind="toy.asked")) for i in range(20)]
    await asyncio.gather(*(deployment.result(f"race-{i}") for i in range(20)))
    assert [deployment.facts(effect) for effect in effects] == [1] * 20


async def _has_late_write(deployment, effect):
    return "refused_write" in await deployment.moves(effect)
