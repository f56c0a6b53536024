"""A person has a settled step taken back: by its declared undo, an effect of its own."""

from __future__ import annotations

import pytest

from ascertain.contracts import names
from ascertain.contracts.command import Action
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Drop, Rule, SubmitKnobs
from tests.protocol.deployment import command, seen, step
from tests.waiting import wait_until

LOST = SubmitKnobs(reply=Drop(how="reset"))
TAKE_BACK = {"kind": "toy.asked", "input": {"amount": -1}}


def undo(row, **fields):
    return command(Action.UNDO, row, **{"effect_id": row.effect_id, **fields})


async def stuck(deployment, task_id, *steps, plan=None):
    """A task whose second step waits for a person, and the rows of its first and of that one."""
    await deployment.worker(plan)
    last = deployment.effect(task_id, steps[1]["name"])
    deployment.outside.rules.add(Rule(reference=last, submit=LOST))
    first = await deployment.submit(task_id, *steps)
    row = await deployment.decidable(last)

    async def shown():
        opened = (await deployment.status(task_id)).open
        return opened is not None and opened.doing == "quarantined"

    await wait_until(shown)
    return await deployment.row(first), row


async def test_a_settled_step_is_taken_back_while_a_later_one_waits(deployments):
    deployment = await deployments()
    steps = ({**step("a"), "undo": TAKE_BACK}, step("b", "toy.neither"))
    first, waiting = await stuck(deployment, "order", *steps)
    answer = await deployment.takeover("order", undo(first))
    assert answer.applied, answer.message
    undone = deployment.effect("order", "a~undo")
    await deployment.wait_for_row(undone, lambda row: row.state is State.SETTLED)
    assert (await deployment.row(first.effect_id)).state is State.SETTLED
    order = (await deployment.ledger.audit(first.effect_id))[-1]
    assert (order.move, order.actor, order.evidence.rule) == ("note", "ada", "undo")

    async def open_again():
        opened = (await deployment.status("order")).open
        return opened is not None and opened.effect_id == waiting.effect_id and opened.standing

    await wait_until(open_again)
    give_up = command(Action.ABANDON, waiting)
    assert (await deployment.takeover("order", give_up)).applied
    result = await deployment.result("order")
    assert result.outcome is TaskOutcome.ABANDONED
    assert [(done.step, done.state) for done in result.undone] == [("a~undo", State.SETTLED)]
    assert deployment.facts(undone) == 1


async def test_after_an_undo_no_further_step_begins(deployments):
    deployment = await deployments()
    steps = ({**step("a"), "undo": TAKE_BACK}, step("b", "toy.neither"), step("c"))
    first, waiting = await stuck(deployment, "ends", *steps)
    await deployment.takeover("ends", undo(first))
    await deployment.wait_for_row(
        deployment.effect("ends", "a~undo"), lambda row: row.state is State.SETTLED
    )
    assert (await deployment.takeover("ends", seen(waiting))).applied
    result = await deployment.result("ends")
    assert result.outcome is TaskOutcome.ABANDONED
    assert [done.step for done in result.steps] == ["a", "b"]


async def test_a_step_is_taken_back_once_however_often_it_is_ordered(deployments):
    deployment = await deployments()
    steps = ({**step("a"), "undo": TAKE_BACK}, step("b", "toy.neither"))
    first, _ = await stuck(deployment, "again", *steps)
    for number in range(3):
        sent = undo(first, request_id=f"req-{number}").model_dump(mode="json", exclude_none=True)
        await deployment.handle("again").signal(names.TAKEOVER, sent)
    undone = deployment.effect("again", "a~undo")
    await deployment.wait_for_row(undone, lambda row: row.state is State.SETTLED)

    async def refused():
        told = (await deployment.status("again")).refused_commands
        return [entry.detail for entry in told] if len(told) == 2 else None

    for detail in await wait_until(refused):
        assert detail.endswith("is taken back was ordered already")
    assert deployment.submits(undone) == 1
    assert (await deployment.moves(first.effect_id)).count("note") == 1


@pytest.mark.parametrize(
    ("first", "changes", "said"),
    [
        (step("a"), {}, "one settled step that declares an undo and still has it: none"),
        ({**step("a"), "undo": TAKE_BACK}, {"effect_id": "ef1-other"}, "a (ef1-"),
        ({**step("a"), "undo": TAKE_BACK}, {"version": 1}, "you looked at version 1"),
    ],
    ids=["no undo", "unknown", "stale"],
)
async def test_what_cannot_be_taken_back_is_refused_with_what_can(
    deployments, first, changes, said
):
    deployment = await deployments()
    settled, _ = await stuck(deployment, "no", first, step("b", "toy.neither"))
    sent = undo(settled).model_dump(mode="json", exclude_none=True)
    await deployment.handle("no").signal(names.TAKEOVER, {**sent, **changes})

    async def refused():
        return [
            entry.detail
            for entry in (await deployment.status("no")).refused_commands
            if said in entry.detail
        ]

    await wait_until(refused)
    assert deployment.submits(deployment.effect("no", "a~undo")) == 0


async def test_an_undo_that_gets_stuck_is_decided_like_any_effect(deployments):
    deployment = await deployments()
    blind = {"kind": "toy.neither", "input": {"amount": -1}}
    steps = ({**step("a"), "undo": blind}, step("b", "toy.neither"))
    first, waiting = await stuck(deployment, "undo-stuck", *steps)
    undone = deployment.effect("undo-stuck", "a~undo")
    deployment.outside.rules.add(Rule(reference=undone, submit=LOST))
    await deployment.takeover("undo-stuck", undo(first))
    row = await deployment.wait_for_row(undone, lambda row: row.state is State.QUARANTINED)

    async def confirmed():
        return (await deployment.takeover("undo-stuck", seen(row, "refund-1"))).applied

    await wait_until(confirmed)
    give_up = command(Action.ABANDON, waiting, effect_id=waiting.effect_id)
    assert (await deployment.takeover("undo-stuck", give_up)).applied
    result = await deployment.result("undo-stuck")
    assert [done.receipt.external_id for done in result.undone] == ["refund-1"]
