"""One task_id, one content: while it runs, once it is closed, and long after Temporal has forgotten it."""

from __future__ import annotations

import pytest
from temporalio.client import WorkflowFailureError

from ascertain.contracts import names
from ascertain.contracts.task import TaskOutcome
from ascertain.door import admit
from ascertain.errors import Conflict
from ascertain.stream import Stream, workflow_id
from tests.protocol.deployment import step
from workers.orphan import TemporalTasks


async def test_a_forgotten_task_is_compared_by_the_ledger_however_its_steps_are_named(deployments):
    deployment = await deployments()
    await deployment.worker()
    effect = await deployment.submit("a")
    await deployment.result("a")
    with pytest.raises(Conflict):
        await deployment.submit("a", step(name="renamed"))
    await deployment.forget("a")
    await deployment.submit("a", step(name="renamed"))  # nobody who could be asked knows better
    with pytest.raises(Conflict, match="other content"):
        await deployment.result("a")
    assert deployment.facts(effect) == 1
    assert deployment.submits(deployment.effect("a", "renamed")) == 0


async def test_what_was_begun_first_is_not_held_up_by_a_run_that_was_turned_away(deployments):
    """Temporal knows nothing of what a stream has done, so the other content is seen there first."""
    deployment = await deployments()
    await deployment.worker()
    first = admit(deployment.task("a"))
    stream = Stream(deployment.client, deployment.id("s"))
    await stream.open()
    await stream.feed(0, [first])
    await deployment.submit("a", step(amount=2))
    with pytest.raises(Conflict, match="other content"):
        await deployment.result("a")
    assert not await TemporalTasks(deployment.client).ascertain(first.task_id)
    assert (await deployment.client.submit(first)).restarted
    assert (await deployment.result("a")).outcome is TaskOutcome.DONE
    effect = deployment.effect("a")
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
    with pytest.raises(Conflict, match="started before with other content"):
        await deployment.submit("a", step(amount=2))


@pytest.mark.parametrize("arguments", [[], ["a word"], [[1, 2]]])
async def test_a_run_that_was_started_with_no_task_holds_no_id(deployments, arguments):
    deployment = await deployments()
    await deployment.worker()
    run = await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW, args=arguments, id=deployment.id("a"), task_queue=deployment.task_queue
    )
    with pytest.raises(WorkflowFailureError):
        await run.result()
    assert not await TemporalTasks(deployment.client).ascertain(run.id)
    effect = await deployment.submit("a")
    assert (await deployment.result("a")).outcome is TaskOutcome.DONE
    assert deployment.facts(effect) == 1


@pytest.mark.parametrize("runs", [True, False])
async def test_a_workflow_that_is_no_task_is_no_earlier_delivery_of_the_one_that_has_its_id(
    deployments, runs
):
    deployment = await deployments()
    await deployment.worker()
    stream = Stream(deployment.client, deployment.id("s"))
    await stream.open()
    if not runs:
        await stream.close()
    task = {**deployment.task("s"), "task_id": workflow_id(stream.name)}
    with pytest.raises(Conflict, match="the workflow Stream of this id is no task"):
        await deployment.client.submit(task)
    assert await deployment.client.ended(task["task_id"]) == "no task"
    assert not await TemporalTasks(deployment.client).ascertain(task["task_id"])
