"""A workflow that somebody reset: what its first course began is remembered, whenever that was."""

from __future__ import annotations

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.errors import CommandRefused
from ascertain.testing.knob import Answer, Drop, LookupKnobs, Rule, SubmitKnobs
from tests.protocol.deployment import seen, step
from tests.protocol.test_given_up import STEPS, confirm, given_up, ordered, taken_back
from tests.protocol.test_restored import begun_before_a_restore, is_known_as_old
from tests.protocol.test_undo import LOST, TAKE_BACK, stuck, undo
from tests.waiting import wait_until

NEVER = SubmitKnobs(commit="never", reply=Drop(how="reset"))
DOWN = LookupKnobs(reply=Answer(status=503))


async def decisions(deployment, task_id):
    """The events at which the workflow had decided something; it can be reset to each."""
    return [
        event.event_id
        async for event in deployment.handle(task_id).fetch_history_events()
        if event.HasField("workflow_task_completed_event_attributes")
    ]


async def reset(deployment, task_id, event_id):
    temporal = deployment.client.temporal
    await temporal.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=deployment.id(task_id)),
            reason="somebody did",
            workflow_task_finish_event_id=event_id,
            request_id=deployment.id(task_id),
        )
    )


async def test_when_a_task_began_is_known_after_a_reset(deployments):
    deployment = await deployments(policy={"ask_quarantined": 60})
    await begun_before_a_restore(deployment, "old")
    await reset(deployment, "old", (await decisions(deployment, "old"))[-1])
    await is_known_as_old(deployment, "old")


async def test_an_undo_that_was_begun_before_a_reset_is_asked_for_before_the_task_ends(deployments):
    deployment = await deployments()
    steps = ({**step("a"), "undo": TAKE_BACK}, step("b", "toy.neither"))
    first, waiting = await stuck(deployment, "back", *steps)
    undone = deployment.effect("back", "a~undo")
    deployment.outside.rules.add(Rule(reference=undone, submit=LOST, lookup=DOWN))
    assert (await deployment.takeover("back", undo(first))).applied
    await deployment.wait_for_row(undone, lambda row: row.state is State.UNKNOWN)
    await reset(deployment, "back", (await decisions(deployment, "back"))[0])

    async def confirmed():
        try:
            return (await deployment.takeover("back", seen(waiting))).applied
        except CommandRefused:  # the run has not come to that step yet
            return False

    deployment.outside.rules.clear()
    await wait_until(confirmed, 60)
    await deployment.result("back")
    assert (await deployment.row(undone)).state is State.SETTLED


@pytest.mark.parametrize("to", [0, 1, -1], ids=["first", "before the order", "after the order"])
async def test_an_undo_that_was_ordered_before_a_reset_is_done_and_no_further_step_is_begun(
    deployments, to
):
    deployment = await deployments()
    waiting = await ordered(deployment, "forgotten")
    await reset(deployment, "forgotten", (await decisions(deployment, "forgotten"))[to])
    await deployment.gate("default", paused=False)
    await confirm(deployment, "forgotten", waiting)
    assert await taken_back(deployment, "forgotten") == 1


async def test_an_ordered_undo_is_done_by_a_run_that_nobody_told_of_it(deployments):
    """As after a reset whose run is ended before a worker takes it, or a start by another program."""
    deployment = await deployments()
    waiting = await given_up(deployment, "untold")
    await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW,
        deployment.task("untold", *STEPS),
        id=deployment.id("untold"),
        task_queue=deployment.task_queue,
    )
    await confirm(deployment, "untold", waiting)
    assert await taken_back(deployment, "untold") == 1
