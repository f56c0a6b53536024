"""Kinds that nobody serves: their tasks wait visibly, can be given up, and are stranded nowhere."""

from __future__ import annotations

import asyncio

import pytest

from ascertain.client import TaskEnded
from ascertain.contracts import names
from ascertain.contracts.command import Action, Command
from ascertain.contracts.directive import UNSERVED
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Drop, Rule, SubmitKnobs
from tests.protocol.deployment import step
from tests.waiting import wait_until


def command(action, version=1):
    return Command(action=action, operator="ada", reason="not wanted", version=version)


async def unserved(deployment, task_id):
    async def waiting():
        status = await deployment.status(task_id)
        return status if status.open and status.open.error_class == UNSERVED else None

    return await wait_until(waiting, what=f"{task_id} being unserved")


async def cancelled(deployment, task_id):
    await deployment.client.cancel(deployment.id(task_id))
    with pytest.raises(TaskEnded, match="cancelled"):
        await deployment.result(task_id)


async def test_a_never_claimed_task_of_an_unknown_kind_ends_when_it_is_cancelled(deployments):
    deployment = await deployments(without=("toy.asked",))
    await deployment.worker()
    await deployment.submit("unknown", step(kind="toy.asked"))
    status = await unserved(deployment, "unknown")
    assert "no worker here knows kind toy.asked" in status.open.reason
    answer = await deployment.takeover("unknown", command(Action.ABANDON))
    assert not answer.applied
    assert "no worker here knows kind toy.asked" in answer.message
    await cancelled(deployment, "unknown")
    assert [row.state for row in await deployment.rows()] == [State.ABANDONED]


async def test_a_never_claimed_task_of_a_queue_that_nobody_serves_ends_when_it_is_cancelled(
    deployments,
):
    deployment = await deployments(policy={"queue": "nobody-is-there"})
    await deployment.worker(queues=("somewhere-else",))
    await deployment.submit("dead", step())
    await wait_until(lambda: runs_queued(deployment, "dead"))
    answer = await deployment.takeover("dead", command(Action.ABANDON))
    assert not answer.applied
    assert "no worker of task queue nobody-is-there took the command" in answer.message
    await cancelled(deployment, "dead")
    assert [row.state for row in await deployment.rows()] == [State.ABANDONED]


async def runs_queued(deployment, task_id):
    at = (await deployment.status(task_id)).open
    return at is not None and at.doing == "run_queued"


async def test_a_cancelled_task_whose_effect_is_in_doubt_waits_for_somebody_who_knows_the_kind(
    deployments,
):
    deployment = await deployments()
    worker = await deployment.worker()
    lost = SubmitKnobs(reply=Drop(how="reset"))
    deployment.outside.rules.add(Rule(times=1, submit=lost))
    effect = await deployment.submit("doubt", step(kind="toy.neither"))
    await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    await worker.drain()
    deployment.configure(without=("toy.neither",))
    await deployment.worker()
    await deployment.client.reconcile_now(deployment.id("doubt"))
    status = await unserved(deployment, "doubt")
    assert status.state == State.QUARANTINED
    await deployment.client.cancel(deployment.id("doubt"))
    await wait_until(lambda: turned_away_again(deployment, "doubt", status.open.since))
    assert (await deployment.row(effect)).state is State.QUARANTINED


async def turned_away_again(deployment, task_id, since):
    status = await deployment.status(task_id)
    return status.cancelling and status.open is not None and status.open.error_class == UNSERVED


async def test_a_task_is_not_stranded_on_a_worker_that_lacks_its_kind_while_another_has_it(
    deployments,
):
    deployment = await deployments(without=("toy.asked",))
    await deployment.worker()
    effect = await deployment.submit("mixed", step(kind="toy.asked"))
    await unserved(deployment, "mixed")
    deployment.configure()
    await deployment.worker()
    result = asyncio.ensure_future(deployment.result("mixed"))
    seen = 0

    async def over():
        nonlocal seen
        if result.done():
            return True
        told = len((await deployment.client.timeline(deployment.id("mixed"))).entries)
        if told > seen:  # turned away once more: whose turn it is next is the server's choice
            seen = told
            await deployment.hurry("mixed")
        return False

    await wait_until(over, 60)
    assert (await result).outcome is TaskOutcome.DONE
    assert deployment.facts(effect) == 1


async def test_a_settled_effect_of_a_kind_that_is_gone_lets_its_task_end(deployments):
    deployment = await deployments()
    worker = await deployment.worker()
    effect = await deployment.submit("gone", step(kind="toy.asked"))
    await deployment.result("gone")
    await worker.drain()
    deployment.configure(without=("toy.asked",))
    await deployment.worker()
    # A second run of what is over, as anybody may start it.
    await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW,
        deployment.task("gone", step(kind="toy.asked")),
        id=deployment.id("gone"),
        task_queue=deployment.task_queue,
    )
    assert (await deployment.result("gone")).outcome is TaskOutcome.DONE
    assert deployment.submits(effect) == 1
