from __future__ import annotations

import typing
from datetime import timedelta
from pathlib import Path

import pytest

from ascertain import stream, word
from ascertain.cli import bulk, incident_command, replay
from ascertain.contracts import names
from ascertain.contracts.incident import Approval, Step
from ascertain.contracts.replay import ReplayRequest
from ascertain.errors import TemporalDown
from ascertain.operation import Operations
from tests.cli.test_tasks import quarantined
from tests.waiting import wait_until


async def status_of(deployed, what, name, **wanted):
    """The status as a document, once it has these values."""

    async def fits():
        answer = (await deployed.cli(what, "status", name, "--json")).document
        return answer if wanted.items() <= answer.items() else None

    return await wait_until(fits, what=f"{what} {name} with {wanted}")


def test_the_steps_that_can_be_typed_are_those_that_there_are():
    assert typing.get_args(incident_command.Step) == tuple(Step)


async def test_a_replay_is_started_looked_at_resumed_and_reported(deployed):
    task_id = await quarantined(deployed, partition="rep")
    given = ("--partition", "rep", "--reason", "the provider is back", "--rate", "50")
    said = await deployed.cli("replay", "start", "rep-1", *given)
    assert said.out.splitlines() == [
        "Replay rep-1 asks for every item first: `ascertain replay status rep-1` says how far it is.",
        'Then it waits for `ascertain replay resume rep-1 --reason "WHY"`, unless there is nothing to tell.',
    ]
    twice = await deployed.cli("replay", "start", "rep-1", *given, code=3)
    assert "rep-1 was started before" in twice.sentence
    await status_of(deployed, "replay", "rep-1", phase="DONE")
    shown = await deployed.cli("replay", "status", "rep-1")
    assert "result: 1 LEFT = 1 of 1 items" in shown.out
    assert (
        "Nothing of it could be told to go on: `ascertain replay report rep-1` says why"
        in shown.out
    )
    refused = await deployed.cli("replay", "resume", "rep-1", "--reason", "x", code=4)
    assert refused.sentence == "replay rep-1 is over, so nothing can be told it any more"
    told = await deployed.cli("replay", "report", "rep-1")
    assert task_id in told.out
    assert "dry run: 1 still unknown = 1 of 1 items" in told.out
    document = (
        await deployed.cli("replay", "report", "rep-1", "--result", "DONE", "--json")
    ).document
    assert (document["tally"]["items"], document["items"]) == (1, [])


async def test_a_replay_of_nothing_says_so_and_waits_for_nobody(deployed):
    given = ("--partition", "nothing-is-here", "--reason", "x")
    await deployed.cli("replay", "start", "rep-0", *given)
    await status_of(deployed, "replay", "rep-0", phase="DONE")
    shown = await deployed.cli("replay", "status", "rep-0")
    assert shown.out.splitlines()[-1] == (
        "No effect fitted what it was to replay, so nothing was told."
    )
    assert "resume" not in shown.out


async def test_what_is_named_for_a_replay_or_an_incident_and_nobody_knows_is_said_to_be_unknown(
    deployed,
):
    task_id = await quarantined(deployed, partition="known")
    names = {
        "--partition": ("known", "No task of partition konwn is known; known: "),
        "--task": (task_id, "The ledger knows no effect of task konwn.\n"),
        "--effect": (deployed.effect_id(task_id), "The ledger knows no effect konwn.\n"),
    }
    for option, (meant, told) in names.items():
        start = ("replay", "start", "--reason", "x", option)
        assert (await deployed.cli(*start, meant)).err == ""
        assert (await deployed.cli(*start, "konwn")).err.startswith(told)
    for partition, told in (("known", ""), ("konwn", names["--partition"][1])):
        opened = await deployed.cli("incident", "open", partition, "--reason", "x")
        assert opened.err.startswith(told)
        assert bool(opened.err) == bool(told)


async def test_a_replay_that_cannot_be_is_refused_where_it_was_typed(deployed):
    answer = await deployed.cli("replay", "start", "--reason", "x", "--state", "SETTLED", code=2)
    assert "states" in answer.sentence
    answer = await deployed.cli("replay", "report", "none-such", code=5)
    assert "no item of a replay none-such" in answer.sentence
    answer = await deployed.cli("replay", "report", "x", "--result", "GONE", code=2)
    assert "no item is ever 'GONE'" in answer.sentence
    for command in (("status",), ("pause", "--reason", "x")):
        answer = await deployed.cli("replay", command[0], "none-such", *command[1:], code=5)
        assert answer.sentence == "there is no replay none-such"
    for command in (("status",), ("approve", "--reason", "x"), ("close", "--reason", "x")):
        answer = await deployed.cli("incident", command[0], "none-such", *command[1:], code=5)
        assert answer.sentence == "there is no incident in partition none-such"


async def test_an_incident_is_opened_approved_looked_at_and_closed(deployed):
    said = await deployed.cli("incident", "open", "inc", "--reason", "provider down")
    assert "partition inc is being paused" in said.out
    assert "`ascertain incident status inc` says which step waits for approval." in said.out
    twice = await deployed.cli("incident", "open", "inc", "--reason", "again", code=3)
    assert "incident-inc was started before" in twice.sentence
    await status_of(deployed, "incident", "inc", waiting_for="snapshot")
    waits = (await deployed.cli("incident", "status", "inc")).out
    assert '`ascertain incident approve inc --reason "WHY"` lets it begin.' in waits
    skipped = ("incident", "approve", "inc", "--step", "resume", "--reason", "quick")
    assert "cannot be skipped" in (await deployed.cli(*skipped, code=4)).sentence
    for following in ("reconcile", "replay", "resume", None):
        await deployed.cli("incident", "approve", "inc", "--reason", "go")
        if following is None:
            continue
        found = await status_of(deployed, "incident", "inc", waiting_for=following)
        if following == "replay":
            asked = (await deployed.cli("replay", "status", found["replay_id"])).out
            assert 'It goes on with `ascertain incident approve inc --reason "WHY"`.' in asked
            assert "replay resume" not in asked
            early = ("replay", "resume", found["replay_id"], "--reason", "early", "--json")
            begun = (await deployed.cli(*early, "--request-id", "early-1")).document
            assert (begun["applied"], begun["request_id"]) == (True, "early-1")
    found = await status_of(deployed, "incident", "inc", waiting_for=None, doing=None)
    assert Path(found["snapshot"]["path"]).parent == deployed.folder / "snapshots"
    shown = await deployed.cli("incident", "status", "inc")
    assert '`ascertain incident close inc --reason "WHY"` ends it.' in shown.out
    assert shown.out.count("done") >= len(Step)
    closed = await deployed.cli("incident", "close", "inc", "--reason", "over")
    assert "Incident incident-inc: closed." in closed.out
    late = await deployed.cli("incident", "close", "inc", "--reason", "over", code=4)
    over = "incident in partition inc is over, so nothing can be told it any more"
    assert late.sentence == over
    again = await deployed.cli("incident", "approve", "inc", "--reason", "go", code=4)
    assert again.sentence == (
        "incident-inc: no step waits for approval: ada closed it; `ascertain incident open inc` opens another"
    )


async def test_an_approval_that_comes_again_with_its_request_id_approves_no_later_step(deployed):
    await deployed.cli("incident", "open", "inc-r", "--reason", "provider down")
    await status_of(deployed, "incident", "inc-r", waiting_for="snapshot")
    approve = ("incident", "approve", "inc-r", "--reason", "go", "--request-id", "go-1", "--json")
    first = (await deployed.cli(*approve)).document
    assert (first["message"], first["request_id"]) == ("snapshot begins", "go-1")
    await status_of(deployed, "incident", "inc-r", waiting_for="reconcile")
    assert (await deployed.cli(*approve)).document == first
    await status_of(deployed, "incident", "inc-r", waiting_for="reconcile", doing=None)
    reconcile = (await deployed.cli(*approve, "--step", "reconcile")).document
    assert reconcile["message"] == "reconcile begins", "of a step that is named it is no repeat"
    await status_of(deployed, "incident", "inc-r", waiting_for="replay")
    assert (await deployed.cli(*approve)).document == reconcile
    await status_of(deployed, "incident", "inc-r", waiting_for="replay", doing=None)
    close = ("incident", "close", "inc-r", "--reason", "over", "--request-id", "c-1")
    assert "closed; resume was not done" in (await deployed.cli(*close)).out
    assert "closed by this request before" in (await deployed.cli(*close)).out
    await deployed.cli(*close[:-1], "c-2", code=4)
    await deployed.cli("resume", "inc-r")


async def test_a_word_that_nobody_answered_says_how_the_same_one_is_given_again(
    deployed, monkeypatch
):
    monkeypatch.setattr(word, "ANSWER_WITHIN", timedelta(seconds=0.5))
    asked = Operations(deployed.client, "nobody-serves-this")
    await asked.start_replay("unheard", ReplayRequest(operator="ada", reason="x"))
    again = "not known whether {} is applied: give the same command again with `{}--request-id r-1`"
    said = replay.said("ada", "x", "r-1")
    with pytest.raises(TemporalDown, match=again.format("pause", "")):
        await replay.tell(asked, "unheard", "pause", said)
    approval = Approval(**said.model_dump(), step=Step.REPLAY)
    with pytest.raises(TemporalDown, match=again.format("approve", "--step replay ")):
        await replay.tell(asked, "unheard", "approve", approval)
    await deployed.client.temporal.start_workflow(
        names.STREAM_WORKFLOW, id=stream.workflow_id("unheard"), task_queue="nobody-serves-this"
    )
    for name, value in deployed.cli.environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TemporalDown, match=again.format("resume", "")):
        await bulk.steer("unheard", said, None, paused=False, as_json=True)


async def test_a_gate_that_is_opened_beside_an_open_incident_says_so(deployed):
    await deployed.cli("incident", "open", "inc-b", "--reason", "provider down")
    await status_of(deployed, "incident", "inc-b", waiting_for="snapshot")
    opened = await deployed.cli("resume", "inc-b")
    assert "Partition inc-b is open" in opened.out
    assert "incident-inc-b is open and goes on: its step snapshot waits for approval" in opened.err
    assert "`ascertain incident status inc-b`" in opened.err
    told = (await deployed.cli("resume", "inc-b", "--json")).document["incidents"]
    case = {"incident_id": "incident-inc-b", "waiting_for": "snapshot", "doing": None}
    assert told == [case]

    async def every():
        return case in (await deployed.cli("resume", "--all", "--json")).document["incidents"]

    await wait_until(every, what="the incident among all that are open")
    shown = (await deployed.cli("incident", "status", "inc-b")).out
    assert "Partition inc-b is open since " in shown
    assert "It was opened beside this incident, so what it held goes on" in shown
    assert "can send now" not in shown
    document = (await deployed.cli("incident", "status", "inc-b", "--json")).document
    assert (document["gate"]["paused"], document["waiting_for"]) == (False, "snapshot")
    await deployed.cli("pause", "--all", "--reason", "a fire", "--operator", "grace")
    shown = (await deployed.cli("incident", "status", "inc-b")).out
    document = (await deployed.cli("incident", "status", "inc-b", "--json")).document
    await deployed.cli("resume", "--all")
    assert "Partition inc-b is open since " in shown
    assert "Every partition is paused since " in shown
    assert ", by grace: a fire." in shown
    assert "So nothing of this partition is sent, whatever its own gate and this incident" in shown
    assert (document["gate"]["paused"], document["gate_of_all"]["paused"]) == (False, True)
    assert "Every partition" not in (await deployed.cli("incident", "status", "inc-b")).out
    await deployed.cli("incident", "close", "inc-b", "--reason", "over")
    after = await deployed.cli("resume", "inc-b", "--json")
    assert after.document["incidents"] == []
    assert after.err == ""
    over = (await deployed.cli("incident", "status", "inc-b")).out
    assert "Partition inc-b is open since " in over
    assert "opens the gate" not in over
