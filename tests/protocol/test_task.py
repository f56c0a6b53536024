"""Whole tasks: several steps, undo, cancel, duplicates, ends from outside, and what a smooth one costs."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.errors import Conflict, InvalidTask, TaskEnded
from ascertain.keys import undo_step
from ascertain.testing.knob import Answer, Drop, Rule, Silence, SubmitKnobs
from drill.points import Point
from tests.protocol.deployment import step
from tests.protocol.kinds import MORTAL
from tests.waiting import wait_until


def undoable(name, **content):
    return {**step(name, **content), "undo": {"kind": "toy.asked", "input": {"amount": 1}}}


def refuse(deployment, effect):
    no = SubmitKnobs(commit="never", reply=Answer(status=400, body={"error": "no"}))
    deployment.outside.rules.add(Rule(key=effect, submit=no))


async def test_steps_run_in_order_and_each_makes_one_fact(deployments):
    deployment = await deployments()
    await deployment.worker()
    await deployment.submit("steps", step("a"), step("b"), step("c"))
    result = await deployment.result("steps")
    assert [done.step for done in result.steps] == ["a", "b", "c"]
    assert [fact.reference for fact in deployment.outside.books.facts] == [
        deployment.effect("steps", name) for name in "abc"
    ]


async def test_a_refused_step_has_the_settled_ones_undone_in_reverse_order(deployments):
    deployment = await deployments()
    await deployment.worker()
    refuse(deployment, deployment.effect("undo", "c"))
    await deployment.submit("undo", undoable("a"), undoable("b"), undoable("c"))
    result = await deployment.result("undo")
    assert result.outcome is TaskOutcome.REFUSED
    assert [(done.step, done.state) for done in result.steps] == [
        ("a", State.SETTLED),
        ("b", State.SETTLED),
        ("c", State.REFUSED),
    ]
    assert [(done.step, done.state) for done in result.undone] == [
        (undo_step("b"), State.SETTLED),
        (undo_step("a"), State.SETTLED),
    ]


@pytest.mark.parametrize("undo", [True, False])
async def test_a_cancelled_task_ascertains_its_open_effect_and_starts_no_new_step(
    deployments, undo
):
    deployment = await deployments()
    await deployment.worker()
    lost = SubmitKnobs(commit=1.0, reply=Silence(seconds=30))
    effect = deployment.effect("cancel", "b")
    deployment.outside.rules.add(Rule(key=effect, times=1, submit=lost))
    await deployment.submit("cancel", undoable("a"), undoable("b"), step("c"), undo_on_cancel=undo)
    await deployment.outside.books.wait_for("submit", key=effect)
    await deployment.client.cancel(deployment.id("cancel"))
    with pytest.raises(TaskEnded, match="cancelled"):
        await deployment.result("cancel")
    rows = {row.step: row.state for row in await deployment.rows()}
    assert rows.pop("b") is State.SETTLED
    assert rows.pop("a") is State.SETTLED
    assert rows.pop("c") is State.ABANDONED
    expected = {undo_step("a"): State.SETTLED, undo_step("b"): State.SETTLED} if undo else {}
    assert rows == expected


async def test_a_cancelled_task_whose_question_is_held_waits_for_the_gate(deployments):
    deployment = await deployments(policy={"retry_base": 1})
    await deployment.worker()
    effect = deployment.effect("held", "b")
    deployment.keyed.rules.add(
        Rule(key=effect, times=1, submit=SubmitKnobs(reply=Drop(how="reset")))
    )
    asking = {**undoable("b"), "kind": "toy.keyed"}
    steps = (step("a"), asking, step("c"))
    await deployment.submit("held", *steps, partition="p", undo_on_cancel=True)
    await deployment.wait_for_row(effect, lambda row: row.state is State.UNKNOWN)
    await deployment.gate("p", paused=True)
    await deployment.client.cancel(deployment.id("held"))

    async def held():
        return (await deployment.status("held")).state == "HELD"

    await wait_until(held)
    await deployment.gate("p", paused=False)
    with pytest.raises(TaskEnded, match="cancelled"):
        await deployment.result("held")
    assert (await deployment.row(effect)).state is State.SETTLED
    assert deployment.facts(effect) == 1
    assert (await deployment.row(deployment.effect("held", undo_step("b")))).state is State.SETTLED


async def test_a_task_cancelled_while_it_waits_to_retry_ends_without_a_fact(deployments):
    deployment = await deployments(policy={"retry_base": 60})
    await deployment.worker()
    deployment.outside.rules.add(Rule(submit=SubmitKnobs(commit="never", reply=Answer(status=429))))
    effect = await deployment.submit("waiting", step(kind="toy.throttling"))
    await deployment.wait_for_row(effect, lambda row: row.state is State.CLEAR)
    await deployment.client.cancel(deployment.id("waiting"))
    with pytest.raises(TaskEnded, match="cancelled"):
        await deployment.result("waiting")
    assert deployment.facts(effect) == 0


async def test_long_work_runs_on_its_own_queue_and_its_lost_answer_is_found(deployments):
    deployment = await deployments()
    await deployment.worker()
    deployment.outside.rules.add(
        Rule(times=1, submit=SubmitKnobs(commit=0.5, reply=Silence(seconds=30)))
    )
    effect = await deployment.submit("slow", step(kind="toy.slow"))
    result = await deployment.result("slow")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def test_cancelling_queued_work_stops_it_and_ascertains_what_it_did(deployments):
    deployment = await deployments()
    await deployment.worker()
    deployment.outside.rules.add(
        Rule(times=1, submit=SubmitKnobs(commit=0.2, reply=Silence(seconds=60)))
    )
    effect = await deployment.submit("stop", step("do", "toy.slow"), step("next"))
    await deployment.outside.books.wait_for("fact", reference=effect)
    await deployment.client.cancel(deployment.id("stop"))
    with pytest.raises(TaskEnded, match="cancelled"):
        await deployment.result("stop")
    row = await deployment.row(effect)
    assert (row.state, deployment.facts(effect)) == (State.SETTLED, 1)
    assert "doubt" in await deployment.moves(effect)


async def test_submitting_again_is_a_duplicate_and_other_content_a_conflict(deployments):
    deployment = await deployments()
    await deployment.worker()
    task = deployment.task("again", step(amount=1))
    first = await deployment.client.submit(task, message_id="m-1")
    await deployment.result("again")
    again = await deployment.client.submit(task, message_id="m-2")
    assert (first.duplicate, again.duplicate) == (False, True)
    reordered = {
        "steps": [dict(reversed(step(amount=1.0).items()))],
        "kind": "toy",
        "task_id": task["task_id"],
    }
    assert (await deployment.client.submit(reordered)).duplicate
    with pytest.raises(Conflict, match="other content"):
        await deployment.client.submit({**task, "steps": [step(amount=2)]})
    assert len(deployment.outside.books.facts) == 1


async def test_fifty_starts_of_one_task_at_once_make_one_fact(deployments):
    deployment = await deployments()
    await deployment.worker()
    task = deployment.task("burst")
    answers = await asyncio.gather(*(deployment.client.submit(task) for _ in range(50)))
    await deployment.result("burst")
    assert Counter(answer.duplicate for answer in answers) == {True: 49, False: 1}
    assert deployment.facts(deployment.effect("burst")) == 1


async def test_the_ledger_remembers_what_temporal_has_forgotten(deployments):
    deployment = await deployments()
    await deployment.worker()
    names = ("same", "other")
    effects = [await deployment.submit(name, step(amount=1)) for name in names]
    await asyncio.gather(*(deployment.result(name) for name in names))
    await asyncio.gather(*(deployment.forget(name) for name in names))
    await deployment.submit("same", step(amount=1))
    await deployment.submit("other", step(amount=2))
    assert (await deployment.result("same")).outcome is TaskOutcome.DONE
    with pytest.raises(Conflict):
        await deployment.result("other")
    assert [deployment.submits(effect) for effect in effects] == [1, 1]


async def test_a_task_ended_from_outside_begins_with_a_lookup_when_it_is_started_again(deployments):
    deployment = await deployments(policy=MORTAL)
    await deployment.worker()
    lost = SubmitKnobs(commit=0.5, reply=Silence(seconds=30))
    deployment.outside.rules.add(Rule(times=1, submit=lost))
    effect = await deployment.submit("ended", step(kind="toy.asked"))
    await deployment.outside.books.wait_for("submit", key=effect)
    handle = deployment.handle("ended")
    await handle.terminate("ended from outside")
    task = deployment.task("ended", step(kind="toy.asked"))
    again = await deployment.client.submit(task)
    result = await deployment.result("ended")
    assert again.restarted
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def test_what_an_ended_workflow_left_behind_is_ascertained_by_the_sweep(deployments):
    deployment = await deployments(policy=MORTAL, sweep_every=1)
    worker = await deployment.worker(deployment.plan(Point.AFTER_ANSWER))
    steps = (step("do", "toy.asked"), step("next", "toy.asked"))
    effect = await deployment.submit("orphan", *steps)
    await worker.process.wait()
    assert (await deployment.row(effect)).state is State.IN_FLIGHT
    await deployment.handle("orphan").terminate("ended from outside")
    await deployment.worker()
    await deployment.wait_for_row(effect, lambda row: row.state is State.SETTLED)
    await wait_until(lambda: _told(deployment, effect, "orphaned"))
    with pytest.raises(TaskEnded, match="submit the task again"):
        await deployment.result("orphan")
    assert [deployment.submits(deployment.effect("orphan", name)) for name in ("do", "next")] == [
        1,
        0,
    ]
    again = await deployment.client.submit(deployment.task("orphan", *steps))
    assert again.restarted
    assert (await deployment.result("orphan")).outcome is TaskOutcome.DONE
    assert [deployment.facts(deployment.effect("orphan", name)) for name in ("do", "next")] == [
        1,
        1,
    ]


async def test_an_ended_workflow_that_never_sent_leaves_an_effect_that_is_known_not_to_exist(
    deployments,
):
    deployment = await deployments(policy=MORTAL, sweep_every=1)
    worker = await deployment.worker(deployment.plan(Point.AFTER_CLAIM))
    effect = await deployment.submit("unsent", step(kind="toy.asked"))
    await worker.process.wait()
    await deployment.handle("unsent").terminate("ended from outside")
    await deployment.worker()
    await deployment.wait_for_row(effect, lambda row: row.state is State.CLEAR)
    with pytest.raises(TaskEnded, match="submit the task again"):
        await deployment.result("unsent")
    assert deployment.submits(effect) == 0


async def test_a_settle_that_the_ledger_lost_in_a_crash_is_found_again(deployments):
    deployment = await deployments(policy=MORTAL, sweep_every=1)
    await deployment.worker()
    effect = await deployment.submit("lost-settle", step(kind="toy.asked"))
    await deployment.result("lost-settle")
    await deployment.lose_settle(effect)
    assert (await deployment.row(effect)).state is State.IN_FLIGHT
    await deployment.wait_for_row(effect, lambda row: row.state is State.SETTLED)
    assert (await deployment.result("lost-settle")).outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def _told(deployment, effect, rule):
    return rule in [event.evidence.rule for event in await deployment.ledger.audit(effect)]


NO_TASKS = {
    "nothing": [],
    "empty": [{}],
    "another id": [{"task_id": "other", "kind": "toy", "steps": [step()]}],
    "no steps": [{"task_id": "raw"}],
    "text": ["task"],
    "two tasks": [{"task_id": "raw"}, {"task_id": "raw"}],
    "broken json": [RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b"{nope"))],
    "no encoding": [RawValue(Payload(data=b"{}"))],
    "infinity": [
        RawValue(
            Payload(
                metadata={"encoding": b"json/plain"},
                data=b'{"task_id": "raw", "kind": "toy", "steps": [{"name": "a", "kind": "toy.fact", '
                b'"input": {"amount": Infinity}}]}',
            )
        )
    ],
}


@pytest.mark.parametrize("name", sorted(NO_TASKS))
async def test_what_is_no_task_ends_its_workflow_at_once_and_leaves_nothing(deployments, name):
    deployment = await deployments()
    await deployment.worker()
    await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW,
        args=NO_TASKS[name],
        id=deployment.id("raw"),
        task_queue=deployment.task_queue,
    )
    with pytest.raises(InvalidTask):
        await deployment.result("raw")
    assert await deployment.rows() == []


async def test_an_unknown_kind_waits_visibly_and_goes_on_when_somebody_knows_it(deployments):
    deployment = await deployments(without=("toy.asked",))
    worker = await deployment.worker()
    effect = await deployment.submit("unserved", step(kind="toy.asked"))

    async def waiting():
        status = await deployment.status("unserved")
        return status.open is not None and "no worker here knows kind" in status.open.reason

    await wait_until(waiting)
    deployment.configure()
    await worker.drain()
    await deployment.worker()
    await deployment.hurry("unserved")
    assert (await deployment.result("unserved")).outcome is TaskOutcome.DONE
    assert deployment.facts(effect) == 1


async def test_a_closed_gate_holds_new_effects_and_lets_them_go_when_it_opens(deployments):
    deployment = await deployments()
    await deployment.worker()
    await deployment.gate("p", paused=True)
    effect = await deployment.submit("held", step(), partition="p")
    other = await deployment.submit("other", step(), partition="q")
    await deployment.result("other")

    async def held():
        return (await deployment.status("held")).state == "HELD"

    await wait_until(held)
    assert (deployment.submits(effect), deployment.facts(other)) == (0, 1)
    await deployment.gate("p", paused=False)
    await deployment.hurry("held", held=True)
    assert (await deployment.result("held")).outcome is TaskOutcome.DONE
    assert deployment.facts(effect) == 1


async def test_a_worker_that_is_told_to_stop_finishes_what_it_has_in_hand(deployments):
    deployment = await deployments()
    worker = await deployment.worker()
    deployment.outside.rules.add(Rule(times=1, submit=SubmitKnobs(reply=Answer(after_s=0.2))))
    effect = await deployment.submit("drained", step())
    await deployment.outside.books.wait_for("submit", key=effect)
    assert await worker.drain() == 0
    row = await deployment.row(effect)
    assert (row.state, deployment.submits(effect)) == (State.SETTLED, 1)
