"""What persons ordered of a task holds for its further runs too, however its earlier ones ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import WorkflowFailureError

from ascertain.client import TaskEnded
from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.errors import InvalidTask
from tests.protocol.deployment import seen, step
from tests.protocol.test_undo import TAKE_BACK, stuck, undo
from tests.waiting import wait_until
from workers.orphan import TemporalTasks

STEPS = ({**step("a"), "undo": TAKE_BACK}, step("b", "toy.neither"), step("c"))
LONG_AGO = datetime.now(UTC) - timedelta(days=3)


async def ordered(deployment, task_id):
    """A task of which a person ordered an undo that the gate holds, and its open step."""
    first, waiting = await stuck(deployment, task_id, *STEPS)
    await deployment.gate("default", paused=True)
    assert (await deployment.takeover(task_id, undo(first))).applied
    return waiting


async def given_up(deployment, task_id):
    """A task that ends from outside before an undo which a person ordered could begin, and its open step."""
    waiting = await ordered(deployment, task_id)
    await deployment.handle(task_id).terminate("ended from outside")
    assert await deployment.ledger.inspect(deployment.effect(task_id, "a~undo")) is None
    await deployment.gate("default", paused=False)
    return waiting


async def confirm(deployment, task_id, row):
    async def opened():
        at = (await deployment.status(task_id)).open
        return at is not None and at.effect_id == row.effect_id and at.standing is not None

    await wait_until(opened, 60)
    assert (await deployment.takeover(task_id, seen(row))).applied


async def taken_back(deployment, task_id):
    """That it was ended as the person wanted, and how often the undo was sent."""
    result = await deployment.result(task_id)
    assert result.outcome is TaskOutcome.ABANDONED
    assert [done.step for done in result.steps] == ["a", "b"]
    assert [(done.step, done.state) for done in result.undone] == [("a~undo", State.SETTLED)]
    assert deployment.submits(deployment.effect(task_id, "c")) == 0
    return deployment.submits(deployment.effect(task_id, "a~undo"))


async def test_a_task_that_a_person_gave_up_begins_no_step_when_it_is_submitted_again(deployments):
    deployment = await deployments()
    waiting = await given_up(deployment, "again")
    assert (await deployment.client.submit(deployment.task("again", *STEPS))).restarted
    await confirm(deployment, "again", waiting)
    assert await taken_back(deployment, "again") == 1


async def test_an_ordered_undo_is_still_owed_by_a_task_whose_begun_effects_are_ascertained(
    deployments,
):
    deployment = await deployments()
    waiting = await given_up(deployment, "swept")
    assert await TemporalTasks(deployment.client).ascertain(deployment.id("swept"))
    await confirm(deployment, "swept", waiting)
    with pytest.raises(TaskEnded, match="submit the task again"):
        await deployment.result("swept")
    assert deployment.submits(deployment.effect("swept", "a~undo")) == 0
    assert (await deployment.client.submit(deployment.task("swept", *STEPS))).restarted
    assert await taken_back(deployment, "swept") == 1


async def turned_away(deployment, task, **start):
    """Somebody's own start of a task that was begun comes to nothing."""
    run = await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW, task, id=task["task_id"], task_queue=deployment.task_queue, **start
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await run.result()
    return failed.value.cause.type


async def test_an_order_is_not_forgotten_over_the_starts_of_others_that_were_turned_away(
    deployments,
):
    deployment = await deployments()
    waiting = await given_up(deployment, "again")
    begun_at = (await deployment.handle("again").describe()).start_time
    task = deployment.task("again", *STEPS)
    other = deployment.task("again", step("a", amount=2))
    assert await turned_away(deployment, other) == "Conflict"
    unread = {names.MEMO_GIVEN_UP: "step a"}
    assert await turned_away(deployment, task, memo=unread) == "InvalidTask"
    assert (await deployment.client.submit(task)).restarted
    memo = await (await deployment.handle("again").describe()).memo()
    assert datetime.fromisoformat(memo[names.MEMO_BEGUN_AT]) == begun_at
    await confirm(deployment, "again", waiting)
    assert await taken_back(deployment, "again") == 1


@pytest.mark.parametrize(
    "memo", [{names.MEMO_BEGUN_AT: "long ago"}, {names.MEMO_AMENDED: 1}, {names.MEMO_GIVEN_UP: [2]}]
)
async def test_a_memo_that_cannot_be_read_is_told_in_a_sentence_and_ends_no_sweep(
    deployments, memo
):
    deployment = await deployments()
    task = deployment.task("odd", *STEPS)
    await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW, task, id=task["task_id"], task_queue=deployment.task_queue, memo=memo
    )
    await deployment.handle("odd").terminate("ended from outside")
    assert not await TemporalTasks(deployment.client).ascertain(task["task_id"])
    with pytest.raises(
        InvalidTask, match=f"task '{task['task_id']}' is not started again: the memo"
    ):
        await deployment.client.submit(task)


async def test_a_first_run_that_was_turned_away_for_its_memo_holds_no_id(deployments):
    deployment = await deployments()
    await deployment.worker()
    task = deployment.task("odd", step("a"))
    unread = {names.MEMO_BEGUN_AT: "long ago"}
    assert await turned_away(deployment, task, memo=unread) == "InvalidTask"
    assert (await deployment.client.submit(task)).restarted
    assert (await deployment.result("odd")).outcome is TaskOutcome.DONE


async def test_what_stands_only_in_what_the_last_run_was_started_with_is_given_on(deployments):
    """An earlier release told its next history all of this, and its memo nothing."""
    deployment = await deployments()
    told = {
        "begun_at": LONG_AGO.isoformat(),
        "given_up": True,
        "steps": [{"step": "a", "effect_id": "ef1-a", "state": "SETTLED"}],
        "undone": [{"step": "a~undo", "effect_id": "ef1-a-undo", "state": "SETTLED"}],
        "amended": {"b": {"revision": 1, "input": {"amount": 7}}},
    }
    task = deployment.task("older", *STEPS)
    await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW,
        {"task": task, "progress": told},
        id=task["task_id"],
        task_queue=deployment.task_queue,
    )
    await deployment.handle("older").terminate("ended from outside")
    assert (await deployment.client.submit(task)).restarted
    memo = await (await deployment.handle("older").describe()).memo()
    assert datetime.fromisoformat(memo[names.MEMO_BEGUN_AT]) == LONG_AGO
    assert (memo[names.MEMO_AMENDED], memo[names.MEMO_GIVEN_UP]) == (told["amended"], ["a"])
    await deployment.worker()
    result = await deployment.result("older")
    assert result.outcome is TaskOutcome.ABANDONED
    assert [deployment.submits(deployment.effect("older", name)) for name in "abc"] == [0, 0, 0]


async def test_a_task_that_was_given_up_begins_nothing_though_nothing_is_owed(deployments):
    """As an earlier release could give it over, once what it had taken back was asked for anew."""
    deployment = await deployments()
    await deployment.worker()
    settled = {"step": "a", "effect_id": "ef1-a", "state": "SETTLED"}
    await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW,
        {
            "task": deployment.task("nothing-owed", *STEPS),
            "progress": {"given_up": True, "steps": [settled]},
        },
        id=deployment.id("nothing-owed"),
        task_queue=deployment.task_queue,
    )
    assert (await deployment.result("nothing-owed")).outcome is TaskOutcome.ABANDONED
    assert len(deployment.outside.books.submits) == 0
