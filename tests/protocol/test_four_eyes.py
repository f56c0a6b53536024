"""Above the deployment's limit, a re-send that a person orders needs the same order of a second one."""

from __future__ import annotations

import pytest

from ascertain.contracts import names
from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import State
from ascertain.testing.knob import Drop, Rule, SubmitKnobs
from tests.protocol.deployment import step
from tests.waiting import wait_until

LIMIT = {"four_eyes": {"field": "amount", "above": 100}}
LOST = SubmitKnobs(commit="never", reply=Drop(how="reset"))


def said(operator, action, row, **fields):
    return Command(
        action=action, operator=operator, reason=f"{operator} looked", version=row.version, **fields
    )


async def stuck(deployment, task_id="pay", amount=5000):
    await deployment.worker()
    deployment.outside.rules.add(Rule(times=1, submit=LOST))
    effect = await deployment.submit(task_id, step(kind="toy.neither", amount=amount))
    return await deployment.decidable(effect)


async def test_a_denial_above_the_limit_waits_for_a_second_person_and_the_trail_names_both(
    deployments,
):
    deployment = await deployments(policy=LIMIT)
    row = await stuck(deployment)
    first = await deployment.takeover("pay", said("ada", Action.DENY, row))
    assert (first.applied, first.pending) == (False, True)
    assert "amount is 5000, above 100" in first.message
    for same in ("ada", " Ada "):
        again = await deployment.takeover("pay", said(same, Action.DENY, row))
        assert (again.applied, again.pending) == (False, True)
    assert deployment.submits(row.effect_id) == 1
    status = await deployment.status("pay")
    (waiting,) = status.pending_commands
    assert waiting.detail.startswith("ada: deny is on record")
    second = await deployment.takeover("pay", said("grace", Action.DENY, row))
    assert second.applied, second.message
    await deployment.result("pay")
    assert deployment.submits(row.effect_id) == 2
    trail = await deployment.ledger.audit(row.effect_id)
    asked, denied = trail[3:5]
    assert (asked.move, asked.actor, asked.evidence.rule) == ("note", "ada", "second_person")
    assert (denied.move, denied.actor) == ("deny", "grace")
    assert denied.evidence.body["persons"] == ["ada", "grace"]
    assert denied.evidence.detail == "grace: grace looked (as ada: deny, ada looked)"


@pytest.mark.parametrize(
    ("amount", "pending"), [(100, False), (101, True), ("unknown", True)], ids=str
)
async def test_one_person_is_enough_up_to_the_limit_and_never_where_it_cannot_be_checked(
    deployments, amount, pending
):
    deployment = await deployments(policy=LIMIT)
    row = await stuck(deployment, amount=amount)
    answer = await deployment.takeover("pay", said("ada", Action.RETRY, row))
    assert (answer.applied, answer.pending) == (not pending, pending)


async def test_what_somebody_has_taken_over_is_sent_again_with_the_consent_of_another(deployments):
    deployment = await deployments(policy=LIMIT)
    row = await stuck(deployment)
    await deployment.takeover("pay", said("ada", Action.TAKE, row))
    row = await deployment.row(row.effect_id)
    stranger = await deployment.takeover("pay", said("grace", Action.DENY, row))
    assert (stranger.applied, stranger.pending) == (False, False)
    assert "ada has taken it over" in stranger.message
    assert (await deployment.takeover("pay", said("ada", Action.DENY, row))).pending
    answer = await deployment.takeover("pay", said("grace", Action.DENY, row))
    assert answer.applied, answer.message
    denied = (await deployment.ledger.audit(row.effect_id))[5]
    assert (denied.move, denied.actor) == ("deny", "ada")
    assert denied.evidence.body["persons"] == ["ada", "grace"]


async def test_two_persons_agree_only_on_the_same_input(deployments):
    deployment = await deployments(policy=LIMIT)
    row = await stuck(deployment)
    seen = {"evidence": {"seen": "nothing"}}

    async def amend(operator, amount):
        changed = said(operator, Action.AMEND, row, input={"amount": amount}, **seen)
        return await deployment.takeover("pay", changed)

    assert (await amend("ada", 700)).pending
    assert (await amend("grace", 800)).pending
    answer = await amend("ada", 800)
    assert answer.applied, answer.message
    assert len(await deployment.ledger.audit(row.effect_id)) == 7


async def test_consent_is_for_the_version_that_was_looked_at(deployments):
    deployment = await deployments(policy=LIMIT)
    row = await stuck(deployment)
    assert (await deployment.takeover("pay", said("ada", Action.RETRY, row))).pending
    await deployment.takeover("pay", said("grace", Action.TAKE, row))
    row = await deployment.row(row.effect_id)
    await deployment.takeover("pay", said("grace", Action.RELEASE, row))
    row = await deployment.wait_for_row(row.effect_id, lambda row: row.state is State.QUARANTINED)
    answer = await deployment.takeover("pay", said("grace", Action.RETRY, row))
    assert (answer.applied, answer.pending) == (False, True)

    async def forgotten():
        waiting = (await deployment.status("pay")).pending_commands
        return [entry.detail.partition(":")[0] for entry in waiting] == ["grace"]

    await wait_until(forgotten)


async def test_a_signal_that_waits_for_a_second_person_stands_in_the_status(deployments):
    deployment = await deployments(policy=LIMIT)
    row = await stuck(deployment)
    sent = said("ada", Action.DENY, row).model_dump(mode="json", exclude_none=True)
    await deployment.handle("pay").signal(names.TAKEOVER, sent)

    async def waits():
        return (await deployment.status("pay")).pending_commands

    await wait_until(waits)
    assert (await deployment.status("pay")).refused_commands == ()
