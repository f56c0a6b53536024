"""A worker killed between any two lines of the protocol leaves one fact, or none and a person told."""

from __future__ import annotations

import asyncio

import pytest

from ascertain.contracts import names
from ascertain.contracts.command import Action
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Drop, SubmitKnobs
from drill.points import Point, Strike
from tests.protocol.deployment import command, step
from tests.protocol.kinds import MORTAL
from tests.protocol.test_given_up import confirm
from tests.protocol.test_undo import TAKE_BACK, stuck, undo
from tests.waiting import wait_until

ASKABLE = ("asked_keyed", "asked", "keyed")
KILLED_AT = [
    Point.BEFORE_CLAIM,
    Point.AFTER_CLAIM,
    Point.BEFORE_SEND,
    Point.AFTER_ANSWER,
    Point.AFTER_RECORD,
]


async def killed(deployment, plan, task_id, kind):
    """Run one task whose worker dies as planned while a second worker stands by."""
    doomed = await deployment.worker(plan)
    effect = await deployment.submit(task_id, step(kind=kind))
    await doomed.process.wait()
    await deployment.worker()
    return effect


@pytest.mark.parametrize("point", KILLED_AT)
async def test_a_worker_killed_at_any_point_leaves_exactly_one_fact(deployments, point):
    async def run(which):
        deployment = await deployments(policy=MORTAL)
        effect = await killed(deployment, deployment.plan(point), f"crash-{which}", f"toy.{which}")
        result = await deployment.result(f"crash-{which}")
        return result.outcome, deployment.facts(effect), deployment.strikes()

    ended = await asyncio.gather(*(run(which) for which in ASKABLE))
    assert ended == [(TaskOutcome.DONE, 1, 1)] * len(ASKABLE)


@pytest.mark.parametrize(("point", "facts"), [(Point.BEFORE_SEND, 0), (Point.AFTER_ANSWER, 1)])
async def test_where_nothing_can_be_asked_a_killed_attempt_goes_to_a_person(
    deployments, point, facts
):
    deployment = await deployments(policy=MORTAL)
    effect = await killed(deployment, deployment.plan(point), "crash-neither", "toy.neither")
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    assert row.error_class == "no_lookup"
    assert deployment.facts(effect) == facts
    assert deployment.submits(effect) == facts


@pytest.mark.parametrize("point", [Point.BEFORE_LOOKUP, Point.AFTER_LOOKUP, Point.AFTER_CONVERGE])
async def test_a_worker_killed_while_it_asks_changes_nothing(deployments, point):
    deployment = await deployments(policy=MORTAL)
    deployment.meet(SubmitKnobs(reply=Drop(how="reset")))
    effect = await killed(deployment, deployment.plan(point), "asking", "toy.asked")
    result = await deployment.result("asking")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.facts(effect), deployment.submits(effect)) == (1, 1)


async def commanded(deployment, task_id, told):
    """Signal a command whose worker dies as soon as the ledger has it; another one takes over."""
    (doomed,) = deployment.workers
    sent = told.model_dump(mode="json", exclude_none=True)
    await deployment.handle(task_id).signal(names.TAKEOVER, sent)
    await doomed.process.wait()
    await deployment.worker()


async def test_a_command_is_heard_though_its_worker_was_killed_right_after_the_ledger_had_it(
    deployments,
):
    deployment = await deployments()
    await deployment.worker(deployment.plan(Point.AFTER_DECIDE))
    deployment.meet(SubmitKnobs(reply=Drop(how="reset")))
    effect = await deployment.submit("stuck", step(kind="toy.neither"))
    row = await deployment.decidable(effect)
    await commanded(deployment, "stuck", command(Action.ABANDON, row))
    assert (await deployment.result("stuck")).outcome is TaskOutcome.ABANDONED


async def test_a_command_is_on_record_before_anything_of_it_is_applied(deployments):
    deployment = await deployments()
    frozen = await deployment.worker(deployment.plan(Point.AFTER_DECIDE, Strike.FREEZE))
    deployment.meet(SubmitKnobs(reply=Drop(how="reset")))
    effect = await deployment.submit("stuck", step(kind="toy.neither"))
    row = await deployment.decidable(effect)
    deciding = asyncio.create_task(deployment.takeover("stuck", command(Action.ABANDON, row)))
    await wait_until(frozen.frozen)
    history = await deployment.handle("stuck").fetch_history()
    assert "workflow_execution_update_accepted_event_attributes" in [
        event.WhichOneof("attributes") for event in history.events
    ]
    frozen.thaw()
    assert (await deciding).applied


async def test_a_command_keeps_its_answer_though_another_one_came_before_it_when_its_worker_was_killed(
    deployments,
):
    deployment = await deployments(policy={"ask_quarantined": 3600})
    doomed = await deployment.worker(deployment.plan(Point.AFTER_DECIDE))
    deployment.meet(SubmitKnobs(reply=Drop(how="reset")))
    effect = await deployment.submit("stuck", step(kind="toy.neither"))
    row = await deployment.decidable(effect)
    first = asyncio.create_task(deployment.takeover("stuck", command(Action.ABANDON, row)))
    await doomed.process.wait()
    other = command(Action.ABANDON, row, operator="bob").model_dump(mode="json", exclude_none=True)
    await deployment.handle("stuck").signal(names.TAKEOVER, other)
    await deployment.worker()
    assert (await first).applied
    assert (await deployment.result("stuck")).outcome is TaskOutcome.ABANDONED
    assert (await deployment.moves(effect)).count("abandon") == 1


async def test_what_a_killed_worker_of_a_queue_applied_is_heard_though_nobody_takes_the_repeat(
    deployments,
):
    deployment = await deployments(policy={"ask_quarantined": 3600})
    queue = f"{deployment.task_queue}-long"
    kind = deployment.settings["kinds"]["toy.neither"]
    kind["semantics"]["max_duration"] = 20
    kind["policy"] = {**kind["policy"], "queue": queue}
    deployment.configure()
    await deployment.worker(queues=("somewhere-else",))
    doomed = await deployment.worker(deployment.plan(Point.AFTER_DECIDE), queues=(queue,))
    deployment.meet(SubmitKnobs(reply=Drop(how="reset")))
    effect = await deployment.submit("stuck", step(kind="toy.neither"))
    row = await deployment.decidable(effect)
    given = command(Action.ABANDON, row).model_dump(mode="json", exclude_none=True)
    await deployment.handle("stuck").signal(names.TAKEOVER, given)
    await doomed.process.wait()

    async def answered():
        return (await deployment.status("stuck")).refused_commands

    (told,) = await wait_until(answered, 120)
    assert "not known to be applied" in told.detail
    await deployment.worker(queues=(queue,))
    assert (await deployment.result("stuck")).outcome is TaskOutcome.ABANDONED


async def test_an_ordered_undo_is_heard_once_though_its_worker_was_killed_right_after_it_was_noted(
    deployments,
):
    deployment = await deployments()
    steps = ({**step("a"), "undo": TAKE_BACK}, step("b", "toy.neither"), step("c"))
    first, waiting = await stuck(
        deployment, "back", *steps, plan=deployment.plan(Point.AFTER_DECIDE)
    )
    await commanded(deployment, "back", undo(first))
    undone = deployment.effect("back", "a~undo")
    await deployment.wait_for_row(undone, lambda row: row.state is State.SETTLED, 90)
    assert (await deployment.moves(first.effect_id)).count("note") == 1
    await confirm(deployment, "back", waiting)
    assert (await deployment.result("back")).outcome is TaskOutcome.ABANDONED


async def test_work_that_kills_its_worker_every_time_is_quarantined_after_its_budget(deployments):
    deployment = await deployments(policy={"lease": 3, "budget": 2})
    plan = deployment.plan(Point.BEFORE_SEND, Strike.EXIT, match="poison", times=None)
    worker = await deployment.worker(plan)
    effect = await deployment.submit("poison", step(kind="toy.asked"))
    for _ in range(2):
        await worker.process.wait()
        worker = await deployment.worker(plan)
    healthy = await deployment.submit("healthy", step(kind="toy.asked"))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    assert (row.attempt, row.error_class) == (2, "budget")
    assert (await deployment.result("healthy")).outcome is TaskOutcome.DONE
    assert (deployment.facts(effect), deployment.facts(healthy)) == (0, 1)
