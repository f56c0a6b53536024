"""Looking after the whole ledger: the sweep, the census and its schedule, the audit trail."""

from __future__ import annotations

import asyncpg

from ascertain.contracts import names
from ascertain.contracts.task import Task
from ascertain.testing.entry import ChangeEntry
from tests.waiting import wait_until

FORGE = """
    update ascertain.audit_events set evidence = jsonb_set(evidence, '{detail}', '"forged"')
    where effect_id = $1 and seq = 1
"""


async def done(deployed) -> str:
    """A task whose note exists."""
    task_id = deployed.new_id("kept")
    await deployed.client.submit(Task(**deployed.task(task_id)))
    await deployed.client.result(task_id)
    return task_id


async def test_a_sweep_says_how_much_it_looked_at(deployed):
    told = (await deployed.cli("sweep", "--json")).document
    assert told["looked_at"] >= told["orphaned"] == len(told["orphans"])
    assert "unresolved effects were looked at" in (await deployed.cli("sweep")).out


async def test_a_census_of_a_fact_that_is_gone_ends_with_13_and_explain_tells_it(deployed):
    task_id = await done(deployed)
    effect = deployed.effect_id(task_id)
    (fact,) = deployed.outside.books.facts_of(effect)
    deployed.outside.books.write(ChangeEntry(id=fact.id, removed=True))
    told = await deployed.cli("census", "--kind", "note.create", code=13)
    assert f"vanished: {effect} of note.create" in told.out
    assert (
        f"{fact.id} proved it and is not listed any more"
        in (await deployed.cli("explain", task_id)).out
    )
    blind = await deployed.cli("census", "--kind", "note.blind", "--json")
    (report,) = blind.document["censuses"]
    assert "cannot list" in report["not_taken"] or "declares no census" in report["not_taken"]


async def test_the_newest_census_of_the_schedule_is_shown_without_taking_one(deployed):
    task_id = await done(deployed)
    effect = deployed.effect_id(task_id)
    (fact,) = deployed.outside.books.facts_of(effect)
    deployed.outside.books.write(ChangeEntry(id=fact.id, removed=True))
    schedule = names.schedule_of(names.CENSUS, "cli")
    await deployed.client.temporal.get_schedule_handle(schedule).trigger()

    async def shown():
        process = await deployed.cli.start("census", "--last")
        out, _ = await process.communicate()
        return out.decode() if process.returncode == 13 and effect in out.decode() else None

    told = await wait_until(shown, 60, what="the schedule's census")
    assert told.startswith("Census of ")
    only = await deployed.cli("census", "--last", "--kind", "note.blind", "--json")
    assert [one["kind"] for one in only.document["censuses"]] == ["note.blind"]


async def test_a_trail_that_was_rewritten_ends_with_12(deployed):
    task_id = await done(deployed)
    assert "every chain holds" in (await deployed.cli("audit", "verify", task_id)).out
    connection = await asyncpg.connect(deployed.cli.environment["ASCERTAIN_LEDGER_URL"])
    try:
        await connection.execute("set session_replication_role = replica")
        await connection.execute(FORGE, deployed.effect_id(task_id))
    finally:
        await connection.close()
    told = await deployed.cli("audit", "verify", task_id, "--json", code=12)
    assert [one["effect_id"] for one in told.document["broken"]] == [deployed.effect_id(task_id)]
