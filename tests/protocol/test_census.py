"""What the outside's own list says against the ledger, through the real workers."""

from __future__ import annotations

from uuid import uuid4

import pytest
from temporalio.service import RPCError

from ascertain.contracts import names
from ascertain.contracts.census import Censuses, CensusOrder, Discord
from ascertain.ledger.audit import verify_chain
from ascertain.scheduled import latest
from ascertain.testing.entry import ChangeEntry
from tests.protocol.deployment import step
from tests.waiting import wait_until


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


async def test_a_schedule_takes_censuses_by_itself_and_keeps_what_they_found(deployments):
    deployment = await deployments(census_every=1, census_since=3600)
    await deployment.worker()
    effect = await run(deployment, "doubled")
    deployment.make_fact(effect, amount=1)

    async def found():
        newest = await latest(deployment.client.temporal, deployment.task_queue)
        told = (
            [one for report in newest.censuses.reports for one in report.discrepancies]
            if newest
            else []
        )
        return [(one.discord, one.effect_id) for one in told]

    async def told():
        return (Discord.DUPLICATE, effect) in await found()

    await wait_until(told, 60, what="the duplicate in the schedule's census")
    assert (await deployment.ledger.audit(effect))[-1].evidence.rule == "census_duplicate"
    assert deployment.submits(effect) == 1


async def test_the_schedule_follows_the_deployment_file_and_a_person_who_paused_it(deployments):
    deployment = await deployments(census_every=3600, without=("toy.slow",))
    worker = await deployment.worker()
    temporal = deployment.client.temporal
    handle = temporal.get_schedule_handle(names.schedule_of(names.CENSUS, deployment.task_queue))
    assert "toy.slow" not in (await handle.describe()).schedule.state.note
    await worker.drain()
    deployment.configure()
    worker = await deployment.worker()
    assert "toy.slow" in (await handle.describe()).schedule.state.note
    await handle.pause(note="the provider is slow today")
    await worker.drain()
    deployment.settings["census_every"] = 1800
    deployment.configure()
    worker = await deployment.worker()
    schedule = (await handle.describe()).schedule
    assert [interval.every.total_seconds() for interval in schedule.spec.intervals] == [1800]
    assert (schedule.state.paused, schedule.state.note) == (True, "the provider is slow today")
    await worker.drain()
    deployment.settings["census_every"] = 0
    deployment.configure()
    await deployment.worker()
    with pytest.raises(RPCError, match="not found"):
        await handle.describe()
