"""What the outside's own list says against the ledger, through the real workers."""

from __future__ import annotations

from uuid import uuid4

from ascertain.contracts import names
from ascertain.contracts.census import Censuses, CensusOrder, Discord
from ascertain.ledger.audit import verify_chain
from ascertain.testing.entry import ChangeEntry
from tests.protocol.deployment import step


async def taken(deployment, *kinds):
    taken = await deployment.client.temporal.execute_workflow(
        names.CENSUS_WORKFLOW,
        CensusOrder(kinds=kinds),
        id=f"census-{uuid4().hex}",
        task_queue=deployment.task_queue,
        result_type=Censuses,
    )
    return taken.reports


async def run(deployment, name, kind="toy.fact"):
    effect = await deployment.submit(name, step(kind=kind))
    await deployment.result(name)
    return effect


async def test_a_census_finds_duplicates_and_what_was_changed_outside_and_sends_nothing(
    deployments,
):
    deployment = await deployments()
    await deployment.worker()
    effects = [await run(deployment, f"counted-{number}") for number in range(3)]
    fine, doubled, reversed_ = effects
    other = await run(deployment, "slow", "toy.slow")
    deployment.make_fact(doubled, amount=1)
    (fact,) = deployment.outside.books.facts_of(reversed_)
    deployment.outside.books.write(ChangeEntry(id=fact.id, status="reversed"))
    submits = len(deployment.outside.books.submits)
    report, slow, unlisted = await taken(deployment, "toy.fact", "toy.slow", "toy.neither")
    assert (report.effects, report.duplicates, report.settled) == (2, 1, 3)
    assert (report.duplicate_effect_rate, report.foreign) == (0.5, 1)
    assert [(one.discord, one.effect_id) for one in report.discrepancies] == [
        (Discord.DUPLICATE, doubled),
        (Discord.CHANGED, reversed_),
    ]
    assert (slow.effects, slow.count) == (1, {})
    assert "declares no census" in unlisted.not_taken
    await taken(deployment, "toy.fact")
    trail = await deployment.ledger.audit(reversed_)
    assert [told.evidence.rule for told in trail].count("census_changed") == 1
    verify_chain(trail, await deployment.row(reversed_))
    assert await deployment.moves(fine) == ["claim", "settle"]
    assert len(deployment.outside.books.submits) == submits
    assert deployment.facts(other) == 1
