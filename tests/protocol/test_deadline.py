"""From its deadline on a task begins nothing; what it began is ascertained, for time proves nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import WorkflowFailureError

from ascertain.contracts.effect import State
from ascertain.errors import Conflict, InvalidTask, TaskEnded
from ascertain.testing.knob import Answer, Drop, LookupKnobs, Rule, SubmitKnobs
from tests.protocol.deployment import step
from tests.waiting import wait_until


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


async def test_what_is_held_at_its_deadline_is_never_begun_and_its_repeat_is_a_duplicate(
    deployments,
):
    deployment = await deployments()
    await deployment.gate("default", paused=True)
    await deployment.worker()
    task = deployment.task("late", step(), deadline=in_seconds(6))
    await deployment.client.submit(task)
    with pytest.raises(TaskEnded, match="came to its deadline"):
        await deployment.result("late")
    await deployment.gate("default", paused=False)
    effect = deployment.effect("late")
    assert deployment.submits(effect) == 0
    assert (await deployment.row(effect)).state is State.ABANDONED
    assert (await deployment.client.submit(task)).duplicate
    with pytest.raises(Conflict):
        await deployment.client.submit({**task, "kind": "other"})


async def test_what_is_open_at_the_deadline_is_ascertained_and_the_next_step_is_not_begun(
    deployments,
):
    deployment = await deployments()
    await deployment.worker()
    nobody_answers = LookupKnobs(reply=Answer(status=503, body={}))
    deployment.outside.rules.add(Rule(lookup=nobody_answers))
    deployment.meet(SubmitKnobs(reply=Drop()))
    # Long enough for the call to leave before it, also where much else is going on.
    first = await deployment.submit("open", step("a"), step("b"), deadline=in_seconds(15))
    await deployment.outside.books.wait_for("submit", key=first)

    async def passed() -> bool:
        return (await deployment.status("open")).cancelling

    await wait_until(passed, 60, what="the deadline")
    assert (await deployment.row(first)).state is State.UNKNOWN
    deployment.outside.rules.clear()
    await deployment.hurry("open")
    with pytest.raises(TaskEnded, match="came to its deadline"):
        await deployment.result("open")
    assert (await deployment.row(first)).state is State.SETTLED
    assert deployment.submits(first) == deployment.facts(first) == 1
    second = deployment.effect("open", "b")
    assert deployment.submits(second) == 0
    assert (await deployment.row(second)).state is State.ABANDONED


async def test_a_deadline_that_has_passed_is_refused_at_the_door_and_by_the_workflow(deployments):
    deployment = await deployments()
    await deployment.worker()
    task = deployment.task("gone", step(), deadline=in_seconds(-1))
    with pytest.raises(InvalidTask, match="has passed, so nothing of it is begun"):
        await deployment.client.submit(task)
    assert await deployment.client.ended(task["task_id"]) == "forgotten"
    with pytest.raises(WorkflowFailureError) as caught:
        await deployment.client.temporal.execute_workflow(
            "Task", task, id=task["task_id"], task_queue=deployment.task_queue
        )
    assert caught.value.cause.type == "InvalidTask"
    assert "has passed" in caught.value.cause.message
    assert await deployment.rows() == []
