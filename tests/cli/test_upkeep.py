"""Looking after the whole ledger: the sweep, the census and its schedule, the audit trail."""

from __future__ import annotations

import json
import re
import signal

import asyncpg

from ascertain.cli import census, failure, upkeep
from ascertain.contracts import names
from ascertain.contracts.census import CensusReport, Discord, Discrepancy
from ascertain.contracts.sweep import SweepReport
from ascertain.contracts.task import Task
from ascertain.testing.entry import ChangeEntry
from tests.cli.test_tasks import quarantined
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
    task_id = await quarantined(deployed)
    await wait_until(lambda: quiet(deployed, task_id), what="the end of what was sent")
    said = (await deployed.cli("sweep")).out
    assert re.search(r"unresolved effects? (was|were) looked at; ", said)


async def quiet(deployed, task_id: str) -> bool:
    row = (await deployed.ledger.inspect(deployed.effect_id(task_id))).row
    return row.now >= row.lease_until


def test_what_to_do_about_a_disagreement_is_told_as_for_a_task(capsys):
    ids = ("fact-1", "fact-2")
    found = tuple(
        Discrepancy(discord=each, effect_id=f"e-{each}", external_ids=ids, detail="fact-1")
        for each in Discord
    )
    report = CensusReport(kind="a.kind", discrepancies=found)
    assert census.tell([report], as_json=False) == failure.DISAGREES
    assert "duplicate: e-duplicate of a.kind: fact-1 (fact-2)" in capsys.readouterr().out
    assert census.tell([report], as_json=True) == failure.DISAGREES
    told = json.loads(capsys.readouterr().out)["safe_next"]
    assert [advice["action"] for advice in told] == [None] * len(Discord)
    assert [advice["meaning"].partition(":")[0] for advice in told] == [*Discord]
    assert [advice["command"] for advice in told] == [
        "ascertain explain EFFECT",
        "ascertain import FILE",
        *["ascertain explain EFFECT"] * 3,
    ]


async def test_the_end_of_the_time_and_ctrl_c_each_say_what_becomes_of_a_sweep(deployed, tmp_path):
    config = tmp_path / "unserved.toml"
    config.write_text('task_queue = "unserved-sweep"\n')
    sweep = ("sweep", "--config", str(config))
    late = await deployed.cli(*sweep, "--within", "0s", code=9)
    waits = (
        r"`temporal workflow result --workflow-id sweep-now-unserved-sweep-[0-9a-f]{8}` waits for"
    )
    assert re.search(f"is not over yet, and goes on: {waits} what it comes to", late.sentence)
    process = await deployed.cli.start(*sweep)

    async def begun():
        query = "TaskQueue = 'unserved-sweep' AND ExecutionStatus = 'Running'"
        found = [one.id async for one in deployed.client.temporal.list_workflows(query)]
        return found if len(found) > 1 else None

    started = await wait_until(begun, what="the second sweep")
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == failure.INTERRUPTED
    said, end = err.decode().splitlines()
    assert re.search(f"goes on: {waits}", said)
    assert end == failure.INTERRUPTION
    for workflow_id in started:
        await deployed.client.temporal.get_workflow_handle(workflow_id).terminate()


def test_a_sweep_says_of_each_orphan_whether_it_is_asked_for_or_how_it_will_be(capsys):
    report = SweepReport(looked_at=9, orphaned=2, orphans=("e1", "e2"), unasked={"e2": "t2"})
    upkeep.show(report)
    assert capsys.readouterr().out.splitlines() == [
        "9 unresolved effects were looked at; of 2 the workflow is gone.",
        "  e1 is asked for now",
        "  e2 is asked for once its task t2 is submitted again, for Temporal has forgotten what it was",
    ]
    upkeep.show(SweepReport(looked_at=3))
    upkeep.show(SweepReport(looked_at=1))
    upkeep.show(SweepReport())
    assert capsys.readouterr().out.splitlines() == [
        "3 unresolved effects were looked at; each is pursued by its task's workflow.",
        "1 unresolved effect was looked at; each is pursued by its task's workflow.",
        "Nothing is unresolved that could be looked at now.",
    ]


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


async def test_a_census_that_could_compare_nothing_ends_with_14_and_says_so(deployed):
    blind = await deployed.cli("census", "--kind", "note.blind", "--json", code=14)
    (report,) = blind.document["censuses"]
    assert "cannot list" in report["not_taken"] or "declares no census" in report["not_taken"]
    told = await deployed.cli("census", "--kind", "note.blind", "--kind", "none.such", code=14)
    assert "No census of none.such: no worker here knows kind none.such; one that" in told.out
    assert [line.split(":")[0] for line in told.out.splitlines()[:2]] == [
        "No census of note.blind",
        "No census of none.such",
    ]
    assert "So nothing was compared" in told.out


def test_one_kind_that_was_compared_is_enough_for_a_census_of_several(capsys):
    blind, listed = CensusReport(kind="a", not_taken="it cannot list"), CensusReport(kind="b")
    assert census.tell([blind, listed], as_json=False) == 0
    told = capsys.readouterr().out
    assert "No census of a: it cannot list" in told
    assert "nothing was compared" not in told


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
    only = await deployed.cli("census", "--last", "--kind", "note.blind", "--json", code=14)
    assert [one["kind"] for one in only.document["censuses"]] == ["note.blind"]
    none = await deployed.cli("census", "--last", "--kind", "none.such", code=14)
    assert "No census of none.such: the schedule's deployment has no such kind" in none.out


async def test_a_trail_that_was_rewritten_ends_with_12(deployed):
    task_id = await done(deployed)
    assert "every chain holds" in (await deployed.cli("audit", "verify", task_id)).out
    connection = await asyncpg.connect(deployed.cli.environment["ASCERTAIN_LEDGER_URL"])
    try:
        await connection.execute("set session_replication_role = replica")
        await connection.execute(FORGE, deployed.effect_id(task_id))
    finally:
        await connection.close()
    none = await deployed.cli("audit", "verify", "never-was", code=5)
    assert none.sentence == "the ledger has no effect of a task never-was, so no trail was checked"
    told = await deployed.cli("audit", "verify", task_id, "--json", code=12)
    assert [one["effect_id"] for one in told.document["broken"]] == [deployed.effect_id(task_id)]
