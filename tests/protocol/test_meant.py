"""Which effect a command is for, where it names none: the one that was open when it came, and no other."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from ascertain.contracts import names
from ascertain.contracts.command import Action
from ascertain.contracts.effect import Receipt, State
from ascertain.contracts.task import TaskOutcome
from ascertain.errors import CommandRefused
from ascertain.testing.knob import Answer, Drop, Rule, SubmitKnobs
from drill.points import Point
from tests.protocol.deployment import command, step
from tests.protocol.test_reset import decisions, reset
from tests.protocol.test_undo import TAKE_BACK, stuck, undo
from tests.waiting import wait_until

BUSY = SubmitKnobs(commit="never", reply=Answer(status=429, body={}))
NEVER = SubmitKnobs(commit="never", reply=Drop(how="reset"))
LOST = SubmitKnobs(reply=Drop(how="reset"))
SELDOM = {"ask_quarantined": 3600}
BLIND = (step("a", "toy.neither"), step("b", "toy.neither"))


async def first_stuck(deployment, task_id, knobs):
    """A task whose two steps wait for a person one after the other; the first one's row."""
    await deployment.worker()
    first, second = deployment.effect(task_id, "a"), deployment.effect(task_id, "b")
    deployment.outside.rules.add(Rule(times=1, reference=first, submit=knobs))
    deployment.outside.rules.add(Rule(times=1, reference=second, submit=LOST))
    await deployment.submit(task_id, *BLIND)
    row = await deployment.decidable(first)
    await waits(deployment, task_id, first)
    return row


async def waits(deployment, task_id, effect):
    async def shown():
        opened = (await deployment.status(task_id)).open
        return opened is not None and (opened.doing, opened.effect_id) == ("quarantined", effect)

    await wait_until(shown)


async def say(deployment, task_id, told):
    sent = told.model_dump(mode="json", exclude_none=True)
    await deployment.handle(task_id).signal(names.TAKEOVER, sent)


async def timeline_tells(deployment, task_id, words):
    async def told():
        entries = (await deployment.client.timeline(deployment.id(task_id))).entries
        return [entry for entry in entries if words in entry.detail]

    await wait_until(told)


async def decided_by_a_killed_worker(deployment, task_id, told):
    """A command that the ledger has and its sender not; other words come before another worker does."""
    (worker,) = deployment.workers
    await worker.kill()
    doomed = await deployment.worker(deployment.plan(Point.AFTER_DECIDE))
    answer = asyncio.create_task(deployment.takeover(task_id, told))
    await doomed.process.wait()
    await deployment.handle(task_id).signal(names.RECONCILE_NOW)
    row = await deployment.row(told.effect_id or deployment.effect(task_id, "a"))
    for number in range(3):
        retry = command(Action.RETRY, row, operator="bob", version=told.version, reason=f"{number}")
        await say(deployment, task_id, retry)
    await deployment.worker()
    return await answer


async def test_a_command_is_never_for_the_effect_that_comes_after_the_one_that_was_open(
    deployments,
):
    deployment = await deployments(policy={"retry_base": 2})
    worker = await deployment.worker()
    first, second = deployment.effect("late", "a"), deployment.effect("late", "b")
    for effect in (first, second):
        deployment.outside.rules.add(Rule(times=1, reference=effect, submit=BUSY))
    await deployment.submit("late", step("a", "toy.throttling"), step("b", "toy.throttling"))
    row = await deployment.wait_for_row(first, lambda row: row.state is State.CLEAR)
    await worker.kill()
    answer = asyncio.create_task(deployment.takeover("late", command(Action.ABANDON, row)))
    await deployment.wait_for_row(first, lambda row: row.now > row.retry_at)
    await deployment.worker()
    told = await answer
    assert (told.applied, told.effect_id) == (False, first)
    assert (await deployment.result("late")).outcome is TaskOutcome.DONE
    assert "abandon" not in await deployment.moves(second)


async def test_two_orders_of_the_one_step_that_can_be_taken_back_take_back_no_other(deployments):
    deployment = await deployments()
    await deployment.worker()
    second, last = deployment.effect("twice", "b"), deployment.effect("twice", "c")
    deployment.outside.rules.add(Rule(reference=last, submit=LOST))
    deployment.outside.rules.add(Rule(times=1, reference=second, submit=SubmitKnobs(commit=3)))
    free = [{**step(name), "undo": TAKE_BACK} for name in ("a", "b")]
    effect = await deployment.submit("twice", *free, step("c", "toy.neither"))
    await deployment.wait_for_row(second, lambda row: row.state is State.IN_FLIGHT)
    order = command(Action.UNDO, await deployment.row(effect), operator="bob")
    await say(deployment, "twice", order)
    with suppress(CommandRefused):  # it may come when a second step can be taken back too
        told = await deployment.takeover("twice", order.model_copy(update={"operator": "ada"}))
        assert not told.applied
    result = await deployment.result("twice")
    assert result.outcome is TaskOutcome.ABANDONED
    assert [done.step for done in result.undone] == ["a~undo"]


async def test_an_undo_that_comes_while_the_last_call_is_under_way_is_done(deployments):
    deployment = await deployments()
    await deployment.worker()
    last = deployment.effect("end", "b")
    deployment.outside.rules.add(Rule(times=1, reference=last, submit=SubmitKnobs(commit=1.8)))
    effect = await deployment.submit("end", {**step("a"), "undo": TAKE_BACK}, step("b"))
    await deployment.wait_for_row(last, lambda row: row.state is State.IN_FLIGHT)
    row = await deployment.row(effect)
    assert (await deployment.takeover("end", undo(row))).applied
    result = await deployment.result("end")
    assert result.outcome is TaskOutcome.ABANDONED
    assert [done.step for done in result.undone] == ["a~undo"]


@pytest.mark.parametrize(("as_update", "request_id"), [(True, None), (False, "ada-1")])
async def test_a_reset_gives_no_command_to_another_effect_than_it_was_applied_to(
    deployments, as_update, request_id
):
    deployment = await deployments(policy=SELDOM)
    row = await first_stuck(deployment, "reset", NEVER)
    deny = command(Action.DENY, row, request_id=request_id)
    if as_update:
        assert (await deployment.takeover("reset", deny)).applied
    else:
        await say(deployment, "reset", deny)
    second = deployment.effect("reset", "b")
    await deployment.decidable(second)
    await reset(deployment, "reset", (await decisions(deployment, "reset"))[0])
    await timeline_tells(deployment, "reset", "had been applied before")
    assert "deny" not in await deployment.moves(second)
    assert deployment.facts(second) == 1


async def test_a_reset_gives_no_command_about_an_undo_to_the_step_that_waits_for_it(deployments):
    deployment = await deployments(policy=SELDOM)
    back = {"kind": "toy.neither", "input": {"amount": -1}}
    undone = deployment.effect("back", "a~undo")
    deployment.outside.rules.add(Rule(times=1, reference=undone, submit=NEVER))
    steps = ({**step("a"), "undo": back}, step("b", "toy.neither"))
    first, waiting = await stuck(deployment, "back", *steps)
    before = (await decisions(deployment, "back"))[-1]
    assert (await deployment.takeover("back", undo(first))).applied
    row = await deployment.decidable(undone)
    await waits(deployment, "back", undone)
    assert row.version == waiting.version
    assert (await deployment.takeover("back", command(Action.DENY, row))).applied
    await deployment.wait_for_row(undone, lambda row: row.state is State.SETTLED)
    await reset(deployment, "back", before)
    await timeline_tells(deployment, "back", f"was given for {undone}")
    assert "deny" not in await deployment.moves(waiting.effect_id)
    assert deployment.facts(waiting.effect_id) == 1


async def test_a_command_that_was_applied_is_told_so_though_its_task_has_gone_on(deployments):
    deployment = await deployments(policy=SELDOM)
    row = await first_stuck(deployment, "gone", LOST)
    told = command(Action.CONFIRM, row, receipt=Receipt(external_id="f-1"), request_id="ada-1")
    assert (await decided_by_a_killed_worker(deployment, "gone", told)).applied
    assert (await deployment.moves(row.effect_id)).count("confirm") == 1


async def test_a_repeat_under_its_request_id_is_for_the_effect_that_it_was_applied_to(deployments):
    deployment = await deployments(policy=SELDOM)
    row = await first_stuck(deployment, "again", NEVER)
    deny = command(Action.DENY, row, request_id="ada-1")
    await decided_by_a_killed_worker(deployment, "again", deny)
    second = deployment.effect("again", "b")
    await deployment.decidable(second)
    await waits(deployment, "again", second)
    repeated = await deployment.takeover("again", deny)
    assert (repeated.applied, repeated.effect_id) == (True, row.effect_id)
    assert "deny" not in await deployment.moves(second)
    assert deployment.facts(second) == 1
