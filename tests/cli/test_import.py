"""Rows that hang in PROCESSING are asked for, and only what provably does not exist is done."""

from __future__ import annotations

from datetime import UTC, datetime

from ascertain.contracts.effect import State
from ascertain.testing.entry import Draft
from tests.waiting import wait_until


def row(deployed, name, state="PROCESSING", **more):
    task = deployed.task(deployed.new_id(name), **more)
    return {"task": task, "state": state}


def effect(deployed, imported):
    return deployed.effect_id(imported["task"]["task_id"])


def submits(deployed, imported):
    reference = effect(deployed, imported)
    return sum(entry.reference == reference for entry in deployed.outside.books.submits)


def exists(deployed, imported):
    """The old worker did act before it died, and the outside can be asked for it."""
    text = imported["task"]["steps"][0]["input"]["text"]
    draft = Draft(
        key=None,
        reference=effect(deployed, imported),
        content={"reference": effect(deployed, imported), "text": text},
        received_at=datetime.now(UTC),
    )
    deployed.outside.books.commit(draft)


async def test_each_row_comes_to_a_proved_state_and_a_second_import_changes_nothing(deployed):
    done, lost, new = (row(deployed, name) for name in ("done", "lost", "new"))
    new["state"] = "PENDING"
    exists(deployed, done)
    file = deployed.file(done, lost, new)
    first = await deployed.cli("import", file)
    assert first.out == "3 rows: 1 pending taken over, 2 processing taken over\n"
    for imported in (done, lost, new):
        result = await deployed.cli("result", imported["task"]["task_id"], "--json")
        assert result.document["outcome"] == "DONE"
    books = deployed.outside.books
    assert [len(books.facts_of(effect(deployed, r))) for r in (done, lost, new)] == [1, 1, 1]
    assert [submits(deployed, r) for r in (done, lost, new)] == [0, 1, 1]
    trail = await deployed.ledger.audit(effect(deployed, done))
    assert [event.evidence.rule for event in trail][:2] == ["claim", "imported"]
    again = await deployed.cli("import", file)
    assert again.out == "3 rows: 3 duplicate\n"
    assert [len(books.facts_of(effect(deployed, r))) for r in (done, lost, new)] == [1, 1, 1]


async def test_a_file_that_cannot_be_read_is_named(deployed):
    refused = await deployed.cli("import", "nofile", code=2)
    assert "cannot read nofile: No such file or directory" in refused.sentence
    refused = await deployed.cli("import", "nofile", "--config", "/", code=7)
    assert refused.sentence == "cannot read the deployment file /: Is a directory"


async def test_where_nobody_can_be_asked_a_person_decides(deployed):
    blind = row(deployed, "blind", kind="note.blind")
    await deployed.cli("import", deployed.file(blind))

    async def stands():
        case = await deployed.ledger.inspect(effect(deployed, blind))
        return case is not None and case.row.state is State.QUARANTINED

    await wait_until(stands, what="the quarantine")
    assert submits(deployed, blind) == 0


async def test_a_row_that_is_none_is_refused_and_the_others_go_on(deployed):
    good = row(deployed, "good", state="PENDING")
    bad = {**row(deployed, "bad"), "state": "STUCK"}
    unknown = {**row(deployed, "begun"), "begun": ["nowhere"]}
    answer = await deployed.cli("import", deployed.file(bad, unknown, good), code=2)
    assert answer.out == "3 rows: 1 pending taken over, 2 refused\n"
    assert ":1: refused: not a row to import: state" in answer.err
    assert "begun names no step: nowhere" in answer.err
