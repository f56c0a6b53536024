"""What a task did not come to, and the ledger knows of all the same, is asked for before the task ends."""

from __future__ import annotations

import json

import pytest

from ascertain.client import TaskEnded
from ascertain.contracts import names
from ascertain.contracts.command import Action
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Answer, LookupKnobs, Rule, SubmitKnobs
from tests.protocol.deployment import command, seen, step
from tests.protocol.test_restored import typed
from tests.protocol.test_undo import LOST, TAKE_BACK, stuck, undo
from tests.waiting import wait_until
from workers.orphan import TemporalTasks

DOWN = LookupKnobs(reply=Answer(status=503))
DECLINED = SubmitKnobs(commit="never", reply=Answer(status=402))


async def imported(deployment, task_id, *steps, begun=("b",)):
    """A task whose later step another system may have done before it was taken over."""
    rows = deployment.folder / f"{task_id}.jsonl"
    row = {"state": "PROCESSING", "task": deployment.task(task_id, *steps), "begun": begun}
    rows.write_text(json.dumps(row) + "\n")
    code, said = await typed(deployment, "import", str(rows))
    assert (code, said) == (0, "1 rows: 1 processing taken over\n")
    return deployment.effect(task_id, begun[0])


async def cancelled(deployment, task_id):
    """It is cancelled while its first step is held, so that this is not begun any more."""
    await deployment.gate("*", paused=True)
    await deployment.worker()

    async def held():
        return (await deployment.status(task_id)).state == "HELD"

    await wait_until(held)
    await deployment.client.cancel(deployment.id(task_id))


async def test_a_later_step_that_another_system_had_done_is_found_though_the_task_was_cancelled(
    deployments,
):
    deployment = await deployments()
    steps = (step("a", "toy.asked"), step("b", "toy.asked"), step("c", "toy.asked"))
    later = await imported(deployment, "over", *steps)
    deployment.make_fact(later, amount=1)
    await cancelled(deployment, "over")
    with pytest.raises(TaskEnded, match="cancelled"):
        await deployment.result("over")
    assert (await deployment.row(later)).state is State.SETTLED
    status = await deployment.status("over")
    assert [(done.step, done.state) for done in status.steps] == [
        ("a", State.ABANDONED),
        ("b", State.SETTLED),
    ]
    assert [deployment.submits(deployment.effect("over", name)) for name in "abc"] == [0, 0, 0]


async def test_a_later_step_that_another_system_had_done_is_taken_back_after_an_earlier_refusal(
    deployments,
):
    deployment = await deployments()
    steps = (step("a", "toy.asked"), {**step("b", "toy.asked"), "undo": TAKE_BACK})
    deployment.outside.rules.add(Rule(key=deployment.effect("no", "a"), submit=DECLINED))
    deployment.make_fact(await imported(deployment, "no", *steps), amount=1)
    await deployment.worker()
    result = await deployment.result("no")
    assert result.outcome is TaskOutcome.REFUSED
    assert [(done.step, done.state) for done in result.steps] == [
        ("a", State.REFUSED),
        ("b", State.SETTLED),
    ]
    assert [(done.step, done.state) for done in result.undone] == [("b~undo", State.SETTLED)]


async def test_a_cancelled_task_waits_for_a_person_about_a_later_step_that_nobody_can_be_asked_for(
    deployments,
):
    deployment = await deployments()
    later = await imported(deployment, "blind", step("a"), step("b", "toy.neither"))
    await cancelled(deployment, "blind")
    row = await deployment.wait_for_row(later, lambda row: row.state is State.QUARANTINED)

    async def decided():
        return (await deployment.takeover("blind", seen(row))).applied

    await wait_until(decided)
    with pytest.raises(TaskEnded, match="cancelled"):
        await deployment.result("blind")
    assert (await deployment.row(later)).state is State.SETTLED


async def test_a_task_that_is_told_to_proceed_does_what_comes_before_a_step_that_was_found(
    deployments,
):
    deployment = await deployments()
    steps = (step("a"), step("b"))
    later = await imported(deployment, "more", *steps)
    await deployment.handle("more").terminate("ended from outside")
    deployment.make_fact(later, amount=1)
    await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW,
        {"task": deployment.task("more", *steps), "progress": {"only_ascertain": True}},
        id=deployment.id("more"),
        task_queue=deployment.task_queue,
    )
    await deployment.worker()
    with pytest.raises(TaskEnded, match="submit the task again"):
        await deployment.result("more")
    assert (await deployment.row(later)).state is State.SETTLED
    await deployment.client.submit(deployment.task("more", *steps))
    result = await deployment.result("more")
    assert result.outcome is TaskOutcome.DONE
    assert [done.step for done in result.steps] == ["a", "b"]
    assert [deployment.submits(deployment.effect("more", name)) for name in "ab"] == [1, 0]


async def test_an_undo_that_an_ended_run_had_begun_is_asked_for_by_the_next_one(deployments):
    deployment = await deployments()
    steps = ({**step("a"), "undo": TAKE_BACK}, step("b", "toy.neither"))
    first, waiting = await stuck(deployment, "ended", *steps)
    undone = deployment.effect("ended", "a~undo")
    deployment.outside.rules.add(Rule(reference=undone, submit=LOST))
    deployment.outside.rules.add(Rule(lookup=DOWN))
    assert (await deployment.takeover("ended", undo(first))).applied
    await deployment.wait_for_row(undone, lambda row: row.state is State.UNKNOWN)
    await deployment.handle("ended").terminate("ended from outside")
    deployment.outside.rules.clear()
    assert await TemporalTasks(deployment.client).ascertain(deployment.id("ended"))

    async def open_again():
        opened = (await deployment.status("ended")).open
        return opened is not None and opened.effect_id == waiting.effect_id

    await wait_until(open_again)
    give_up = command(Action.ABANDON, waiting)
    assert (await deployment.takeover("ended", give_up)).applied
    result = await deployment.result("ended")
    assert result.outcome is TaskOutcome.ABANDONED
    assert [(done.step, done.state) for done in result.undone] == [("a~undo", State.SETTLED)]
    assert deployment.submits(undone) == 1
