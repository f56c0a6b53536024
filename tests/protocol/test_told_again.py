"""What is cancelled before it was begun is never sent, and the task tells so however often it is started."""

from __future__ import annotations

import pytest
from temporalio.common import WorkflowIDReusePolicy

from ascertain.client import TaskEnded
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.door import admit
from tests.protocol.deployment import SETTLED, step
from tests.protocol.test_given_up import confirm
from tests.protocol.test_undo import TAKE_BACK, stuck, undo
from tests.waiting import wait_until


async def start_again(deployment, task):
    """As anybody can who starts workflows, or once Temporal has forgotten the task."""
    await deployment.client.starting.start(admit(task), WorkflowIDReusePolicy.ALLOW_DUPLICATE)


async def held(deployment, task, name):
    """The task, at a step that the gate holds."""
    await deployment.gate("default", paused=True)
    await deployment.client.submit(task)

    async def is_held():
        at = (await deployment.client.status(task["task_id"])).open
        return at is not None and (at.step, at.doing) == (name, "held")

    await wait_until(is_held)


async def told(deployment, task, words):
    """Whoever waits for the task hears these words, and nothing of it was sent."""
    with pytest.raises(TaskEnded, match=words):
        await deployment.client.result(task["task_id"], within=SETTLED)
    assert [row.state for row in await deployment.rows()] == [State.ABANDONED]
    assert len(deployment.outside.books.submits) == 0


async def test_a_cancelled_task_tells_that_it_was_cancelled_when_it_is_started_again(deployments):
    deployment = await deployments()
    await deployment.worker()
    task = deployment.task("over", step("a"), step("b"))
    await held(deployment, task, "a")
    await deployment.client.cancel(task["task_id"])
    await told(deployment, task, "cancelled")
    await deployment.gate("default", paused=False)
    await start_again(deployment, task)
    await told(deployment, task, "cancelled")


async def test_a_task_that_is_cancelled_before_a_worker_takes_it_sends_nothing(deployments):
    deployment = await deployments()
    task = deployment.task("early", step("a"), step("b"))
    await deployment.client.submit(task)
    await deployment.client.cancel(task["task_id"])
    await deployment.worker()
    await told(deployment, task, "cancelled")


async def test_a_task_that_was_given_up_tells_so_when_it_is_started_again(deployments):
    deployment = await deployments()
    steps = ({**step("a"), "undo": TAKE_BACK}, step("b", "toy.neither"), step("c"))
    first, waiting = await stuck(deployment, "given-up", *steps)
    assert (await deployment.takeover("given-up", undo(first))).applied
    await confirm(deployment, "given-up", waiting)
    for _ in range(2):
        result = await deployment.result("given-up")
        assert result.outcome is TaskOutcome.ABANDONED
        (row,) = [row for row in await deployment.rows() if row.step == "c"]
        assert (row.state, row.evidence.rule) == (State.ABANDONED, "give_up")
        await start_again(deployment, deployment.task("given-up", *steps))
