"""A run that only finds out what an ended one had begun: it begins nothing, unless it is told to proceed."""

from __future__ import annotations

import pytest
from temporalio.client import WorkflowExecutionStatus

from ascertain.client import TaskEnded
from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Answer, LookupKnobs, Rule, Silence, SubmitKnobs
from tests.protocol.deployment import step
from tests.protocol.kinds import MORTAL
from tests.waiting import wait_until

DOWN = LookupKnobs(reply=Answer(status=503))


async def left_behind(deployment, task_id, *steps):
    """A task that was ended from outside while its effect is in doubt and cannot be asked for."""
    await deployment.worker()
    deployment.outside.rules.add(Rule(lookup=DOWN))
    lost = SubmitKnobs(reply=Silence(seconds=30))
    effect = deployment.effect(task_id)
    deployment.outside.rules.add(Rule(key=effect, times=1, submit=lost))
    await deployment.submit(task_id, *steps)
    await deployment.outside.books.wait_for("submit", key=effect)
    ended = (await deployment.handle(task_id).describe()).run_id
    await deployment.handle(task_id).terminate("ended from outside")

    async def swept():
        found = await deployment.handle(task_id).describe()
        return found.run_id != ended

    await wait_until(swept, 60)
    return effect


async def test_a_task_submitted_while_it_is_only_ascertained_goes_on(deployments):
    deployment = await deployments(policy=MORTAL, sweep_every=1)
    steps = (step("do", "toy.asked"), step("next", "toy.asked"))
    effect = await left_behind(deployment, "again", *steps)
    assert (await deployment.status("again")).only_ascertains
    answer = await deployment.client.submit(deployment.task("again", *steps))
    assert (answer.restarted, answer.duplicate) == (True, False)
    deployment.outside.rules.clear()
    await deployment.hurry("again")
    assert (await deployment.result("again")).outcome is TaskOutcome.DONE
    assert [deployment.submits(deployment.effect("again", name)) for name in ("do", "next")] == [
        1,
        1,
    ]
    assert deployment.facts(effect) == 1
    once_more = await deployment.client.submit(deployment.task("again", *steps))
    assert once_more.duplicate


async def test_a_run_told_to_proceed_at_its_very_beginning_goes_on(deployments):
    deployment = await deployments()
    await deployment.worker()
    task = deployment.task("early", step())
    await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW,
        {"task": task, "progress": {"only_ascertain": True}},
        id=task["task_id"],
        task_queue=deployment.task_queue,
        start_signal=names.PROCEED,
    )
    assert (await deployment.result("early")).outcome is TaskOutcome.DONE


async def test_what_is_left_of_a_cancelled_task_is_ascertained_and_it_stays_cancelled(deployments):
    deployment = await deployments(policy=MORTAL, sweep_every=1)
    await deployment.worker()
    held = deployment.effect("over", "b")
    slow = SubmitKnobs(reply=Answer(after_s=2.5))
    deployment.outside.rules.add(Rule(key=held, times=1, submit=slow))
    steps = (step("a", "toy.asked"), step("b", "toy.slow"), step("c", "toy.asked"))
    effect = await deployment.submit("over", *steps)
    await deployment.outside.books.wait_for("submit", key=held)
    await deployment.client.cancel(deployment.id("over"))
    with pytest.raises(TaskEnded, match="cancelled"):
        await deployment.result("over")
    await deployment.lose_settle(effect)
    await deployment.wait_for_row(effect, lambda row: row.state is State.SETTLED)
    with pytest.raises(TaskEnded, match="cancelled"):
        await deployment.result("over")
    found = await deployment.handle("over").describe()
    assert found.status is WorkflowExecutionStatus.COMPLETED
    again = await deployment.client.submit(deployment.task("over", *steps))
    assert (again.duplicate, again.restarted) == (True, False)
    assert deployment.submits(deployment.effect("over", "c")) == 0
