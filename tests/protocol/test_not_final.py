"""What the outside calls failed, or done, may change: only what is declared final closes an effect."""

from __future__ import annotations

import pytest

from ascertain.contracts.census import Discord
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.entry import ChangeEntry
from ascertain.testing.knob import Drop, SubmitKnobs
from tests.protocol.deployment import step
from tests.protocol.test_cases_time import lookups, with_kind
from tests.protocol.test_census import taken

OPEN = {State.UNKNOWN, State.ACCEPTED, State.QUARANTINED}
FAILED = SubmitKnobs(fact_status="failed", reply=Drop(how="reset"))


def staged(deployment, **stages):
    """A kind whose lookup says how a fact stands."""
    lookup = deployment.settings["kinds"]["toy.asked"]["options"]["lookup"]
    told = {**lookup, "state": "status", "found": ["succeeded"], **stages}
    with_kind(deployment, "toy.staged", "toy.asked", options={"lookup": told})


async def failed(deployment):
    deployment.meet(FAILED)
    effect = await deployment.submit("staged", step(kind="toy.staged"))
    await lookups(deployment, effect, 1)
    (fact,) = deployment.outside.books.facts_of(effect)
    return effect, fact


@pytest.mark.parametrize("stages", [{"pending": ["failed"]}, {}], ids=["pending", "undeclared"])
async def test_a_failure_that_is_not_declared_final_closes_nothing_and_its_success_settles(
    deployments, stages
):
    deployment = await deployments(policy={"ask_quarantined": 0.2})
    staged(deployment, **stages)
    await deployment.worker()
    effect, fact = await failed(deployment)
    await lookups(deployment, effect, 3)
    assert (await deployment.row(effect)).state in OPEN
    deployment.outside.books.write(ChangeEntry(id=fact.id, status="succeeded"))
    assert (await deployment.result("staged")).outcome is TaskOutcome.DONE
    assert (await deployment.row(effect)).external_id == fact.id
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def test_a_final_failure_that_succeeds_after_all_is_a_discrepancy_and_nothing_is_sent(
    deployments,
):
    deployment = await deployments()
    staged(deployment, refused=["failed"])
    await deployment.worker()
    effect, fact = await failed(deployment)
    assert (await deployment.result("staged")).outcome is TaskOutcome.REFUSED
    deployment.outside.books.write(ChangeEntry(id=fact.id, status="succeeded"))
    (report,) = await taken(deployment, "toy.staged")
    (found,) = report.discrepancies
    assert (found.discord, found.effect_id) == (Discord.DENIED, effect)
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


@pytest.mark.parametrize(
    ("change", "discord"),
    [({"status": "reversed"}, Discord.CHANGED), ({"removed": True}, Discord.VANISHED)],
    ids=["reversed", "removed"],
)
async def test_a_settled_fact_that_is_taken_away_is_a_discrepancy_and_nothing_is_sent(
    deployments, change, discord
):
    deployment = await deployments()
    await deployment.worker()
    effect = await deployment.submit("settled", step())
    await deployment.result("settled")
    (fact,) = deployment.outside.books.facts_of(effect)
    deployment.outside.books.write(ChangeEntry(id=fact.id, **change))
    (report,) = await taken(deployment, "toy.fact")
    assert [(one.discord, one.effect_id) for one in report.discrepancies] == [(discord, effect)]
    trail = await deployment.ledger.audit(effect)
    assert trail[-1].evidence.rule == f"census_{discord}"
    assert (await deployment.row(effect)).state is State.SETTLED
    assert deployment.submits(effect) == 1
