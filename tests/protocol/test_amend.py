"""A person replaces the input of what provably does not exist: only one of old and new can ever run."""

from __future__ import annotations

import pytest

from ascertain.contracts import names
from ascertain.contracts.claim import ClaimRequest, Refused
from ascertain.contracts.command import Action
from ascertain.contracts.effect import Effect, State
from ascertain.contracts.task import TaskOutcome
from ascertain.keys import effect_id, fingerprint
from ascertain.testing.knob import Drop, Rule, SubmitKnobs
from tests.protocol.deployment import command, step
from tests.protocol.test_person import quarantined
from tests.protocol.test_replay import WORD, operations, paused, start, tally_of
from tests.waiting import wait_until
from workers.orphan import TemporalTasks

NEVER = SubmitKnobs(commit="never", reply=Drop(how="reset"))
LOST = SubmitKnobs(reply=Drop(how="reset"))


def amend(row, changed, **fields):
    return command(Action.AMEND, row, input=changed, **fields)


def successor(deployment, task_id, revision=1, name="do"):
    return effect_id(deployment.client.temporal.namespace, deployment.id(task_id), name, revision)


async def budget_used(deployment, task_id, *steps):
    """A task whose effect provably does not exist, after the only attempt that it may have."""
    await deployment.worker()
    deployment.outside.rules.add(Rule(times=1, submit=NEVER))
    effect = await deployment.submit(task_id, *(steps or (step(kind="toy.asked"),)))
    return await deployment.decidable(effect)


async def test_an_amended_effect_is_done_once_with_the_new_input_and_the_old_one_never(deployments):
    deployment = await deployments(policy={"budget": 1})
    row = await budget_used(deployment, "wrong")
    answer = await deployment.takeover("wrong", amend(row, {"amount": 7}))
    assert answer.applied, answer.message
    result = await deployment.result("wrong")
    new = successor(deployment, "wrong")
    assert result.outcome is TaskOutcome.DONE
    assert [done.effect_id for done in result.steps] == [new]
    old, amended = await deployment.row(row.effect_id), await deployment.row(new)
    assert (old.state, old.superseded_by) == (State.SUPERSEDED, new)
    assert (amended.state, amended.revision) == (State.SETTLED, 1)
    (fact,) = deployment.outside.books.facts_of(new)
    assert fact.content["amount"] == 7
    assert (deployment.facts(row.effect_id), deployment.submits(row.effect_id)) == (0, 1)
    assert await deployment.moves(row.effect_id) == [
        *("claim", "doubt", "find_absent", "quarantine", "deny", "supersede")
    ]


async def test_a_new_input_that_the_ledger_could_not_keep_whole_is_refused_and_changes_nothing(
    deployments,
):
    deployment = await deployments(policy={"budget": 1})
    row = await budget_used(deployment, "large", step(kind="toy.asked"))
    large = {"amount": 7, "note": "y" * 20_000}
    answer = await deployment.takeover("large", amend(row, large))
    assert not answer.applied
    assert "the new input is 20022 bytes, and with what was seen more than" in answer.message
    assert "submit what is left to do under a new task_id" in answer.message
    assert (await deployment.row(row.effect_id)).state is State.QUARANTINED
    assert (await deployment.takeover("large", amend(row, {"amount": 7}))).applied
    assert (await deployment.result("large")).outcome is TaskOutcome.DONE


async def test_nothing_that_fires_later_runs_what_was_amended(deployments):
    deployment = await deployments(policy={"budget": 1})
    row = await budget_used(deployment, "late")
    await deployment.takeover("late", amend(row, {"amount": 7}))
    await deployment.result("late")
    late = ClaimRequest(
        effect=Effect(
            effect_id=row.effect_id,
            task_id=row.task_id,
            step="do",
            kind="toy.asked",
            partition="default",
            input={"amount": 1},
        ),
        fingerprint=fingerprint("toy.asked", {"amount": 1}),
        frozen=b"old",
        owner="a batch replay",
        lease=row.lease_until - row.first_sent_at,
        budget=9,
        resend=True,
    )
    assert isinstance(await deployment.ledger.claim(late), Refused)
    assert await TemporalTasks(deployment.client).ascertain(deployment.id("late"))
    result = await deployment.result("late")
    assert [done.effect_id for done in result.steps] == [successor(deployment, "late")]
    assert deployment.submits(row.effect_id) == 1
    assert deployment.submits(successor(deployment, "late")) == 1


async def test_a_replay_that_had_selected_the_old_effect_keeps_its_hands_off(deployments):
    deployment = await deployments(policy={"budget": 1})
    row = await budget_used(deployment, "selected")
    replay_id = await start(deployment, go_on=False, partition=None)
    await paused(deployment, replay_id)
    await deployment.takeover("selected", amend(row, {"amount": 7}))
    await operations(deployment).say(replay_id, names.RESUME, WORD)
    tally = await tally_of(deployment, replay_id)
    assert tally.results == {"MOVED": 1}
    await deployment.result("selected")
    new = successor(deployment, "selected")
    assert (deployment.facts(row.effect_id), deployment.facts(new)) == (0, 1)
    assert (deployment.submits(row.effect_id), deployment.submits(new)) == (1, 1)


async def test_an_amended_input_can_be_amended_again(deployments):
    deployment = await deployments(policy={"budget": 1})
    row = await budget_used(deployment, "twice")
    first = successor(deployment, "twice")
    deployment.outside.rules.add(Rule(reference=first, submit=NEVER))
    await deployment.takeover("twice", amend(row, {"amount": 7}))
    row = await deployment.decidable(first)
    answer = await deployment.takeover("twice", amend(row, {"amount": 8}))
    assert answer.applied, answer.message
    await deployment.result("twice")
    (fact,) = deployment.outside.books.facts_of(successor(deployment, "twice", 2))
    assert fact.content["amount"] == 8


async def test_an_edit_of_what_may_exist_is_refused_until_that_is_proved(deployments):
    deployment = await deployments()
    row = await quarantined(deployment)
    answer = await deployment.takeover("stuck", amend(row, {"amount": 7}, override=True))
    assert not answer.applied
    assert "give as evidence what shows that it does not exist" in answer.message
    assert (await deployment.row(row.effect_id)).version == row.version
    seen = {"statement": "of 3 May, without it"}
    answer = await deployment.takeover("stuck", amend(row, {"amount": 7}, evidence=seen))
    assert answer.applied, answer.message
    await deployment.result("stuck")
    assert deployment.submits(successor(deployment, "stuck")) == 1


async def test_an_edit_of_what_the_outside_has_is_refused_whoever_insists(deployments):
    deployment = await deployments()
    await deployment.worker()
    deployment.outside.rules.add(Rule(submit=NEVER))
    effect = deployment.effect("there")
    deployment.make_fact(effect, amount=2)
    await deployment.submit("there", step(kind="toy.asked"))
    row = await deployment.decidable(effect)
    answer = await deployment.takeover("there", amend(row, {"amount": 2}, override=True))
    assert not answer.applied
    assert (
        answer.message == f"amend refused: {(await deployment.fact_ids(effect))[0]} carries this id"
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"amount": 1}, "the new input is the old one"),
        ({"text": "x"}, "the new input is no input of toy.asked"),
        ({"amount": "x" * 300_000}, "is too large"),
    ],
    ids=["same", "unfit", "large"],
)
async def test_an_input_that_cannot_be_done_is_refused_before_anything_moves(
    deployments, changed, said
):
    deployment = await deployments(policy={"budget": 1})
    row = await budget_used(deployment, "unfit")
    handle = deployment.handle("unfit")
    sent = amend(row, changed).model_dump(mode="json", exclude_none=True)
    await handle.signal("takeover", sent)

    async def refused():
        status = await deployment.status("unfit")
        return [entry for entry in status.refused_commands if said in entry.detail]

    await wait_until(refused)
    assert (await deployment.row(row.effect_id)).version == row.version
