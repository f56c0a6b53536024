from __future__ import annotations

import asyncio
import os
import pty

import pytest

from ascertain.ports import EffectFilter
from tests.cli.conftest import PROGRAM
from tests.cli.test_tasks import quarantined, standing
from tests.waiting import wait_until


async def row(deployed, task_id: str):
    (found,) = await deployed.ledger.effects(EffectFilter(task_id=task_id))
    return found


async def test_a_person_takes_over_and_confirms_and_the_trail_names_them(deployed):
    task_id = await quarantined(deployed)
    (fact,) = deployed.outside.books.facts_of(deployed.effect_id(task_id))

    async def taken():
        answer = await deployed.cli.start(
            "takeover", task_id, "take", "--reason", "on it", "--operator", "grace", "--yes"
        )
        _, err = await answer.communicate()
        return answer.returncode == 0 or b"do not act yet" not in err

    await wait_until(taken, what="the end of what was in flight")
    assert (await row(deployed, task_id)).taken_by == "grace"
    version = (await row(deployed, task_id)).version
    answer = await deployed.cli(
        "takeover",
        task_id,
        "confirm",
        "--reason",
        "seen in the books",
        "--operator",
        "grace",
        "--external-id",
        fact.id,
        "--evidence",
        '{"page": 3}',
        "--version",
        str(version),
        "--effect",
        deployed.effect_id(task_id),
        "--json",
    )
    assert answer.document["applied"] is True
    result = await deployed.client.result(task_id)
    assert result.steps[0].receipt.external_id == fact.id
    trail = await deployed.ledger.audit(deployed.effect_id(task_id))
    assert [event.move for event in trail[-2:]] == ["take", "confirm"]
    assert {event.actor for event in trail[-2:]} == {"grace"}
    assert trail[-1].evidence.body["seen"] == {"page": 3}
    told = await deployed.cli("explain", task_id)
    assert f"grace confirmed that it exists as {fact.id}: seen in the books." in told.out


async def test_a_stale_version_is_refused_with_what_changed_and_exit_code_4(deployed):
    task_id = await quarantined(deployed)
    before = await row(deployed, task_id)
    answer = await deployed.cli(
        "takeover", task_id, "retry", "--reason", "x", "--version", "1", "--json", code=4
    )
    assert "you looked at version 1" in answer.sentence
    assert answer.document["error"]["code"] == "command_refused"
    assert answer.document["error"]["answer"]["applied"] is False
    assert (await row(deployed, task_id)).version == before.version


async def test_a_command_for_another_effect_is_refused(deployed):
    task_id = await quarantined(deployed)
    version = str((await standing(deployed, task_id)).version)
    given = ("--reason", "x", "--version", version, "--effect", "ef1-other")
    answer = await deployed.cli("takeover", task_id, "abandon", *given, code=4)
    assert f"the open effect is {deployed.effect_id(task_id)}, not ef1-other" in answer.sentence
    assert (await row(deployed, task_id)).state == "QUARANTINED"


async def test_without_somebody_to_ask_the_version_must_be_said(deployed):
    task_id = await quarantined(deployed)
    before = await row(deployed, task_id)
    given = ("takeover", task_id, "abandon", "--reason", "x")
    answer = await deployed.cli(*given, "--json", code=2)
    assert "the --version that was looked at must be given" in answer.sentence
    answer = await deployed.cli(*given, code=2)
    shown, sentence = answer.err.splitlines()[:2], answer.err.splitlines()[-1]
    assert deployed.effect_id(task_id) in shown[0]
    assert f"QUARANTINED, version {before.version}" in shown[1]
    assert "nobody is there to confirm: say --yes, or which --version" in sentence
    assert (await row(deployed, task_id)).version == before.version


@pytest.mark.parametrize(("said", "code"), [("y", 0), ("n", 130)])
async def test_a_person_at_a_terminal_is_shown_the_version_and_asked(deployed, said, code):
    task_id = await quarantined(deployed)
    before = await row(deployed, task_id)
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        *("takeover", task_id, "retry", "--reason", "x"),
        stdin=theirs,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=deployed.cli.environment,
    )
    os.close(theirs)
    os.write(ours, f"{said}\n".encode())
    out, err = await process.communicate()
    os.close(ours)
    assert process.returncode == code, (out, err)
    assert "retry it as ada? [y/N]" in err.decode()
    applied = [event.move for event in await deployed.ledger.audit(before.effect_id)][3:4]
    assert applied == (["retry"] if code == 0 else [])


async def test_what_is_no_command_is_refused_before_it_is_sent(deployed):
    task_id = await quarantined(deployed)
    given = ("takeover", task_id, "deny", "--version", "3", "--reason")
    for more, said in (
        ((" ",), "reason: "),
        (("x", "--evidence", "[1]"), "--evidence must be a JSON object"),
        (("x", "--evidence", "{"), "--evidence is not JSON"),
        (("x", "--request-id", "r" * 101), "request_id: "),
    ):
        assert said in (await deployed.cli(*given, *more, code=2)).sentence
    answer = await deployed.cli("takeover", task_id, "destroy", "--reason", "x", code=2)
    assert "destroy" in answer.sentence


async def test_a_task_without_an_open_effect_cannot_be_decided(deployed):
    task_id = deployed.new_id()
    await deployed.cli("submit", deployed.file(deployed.task(task_id)), "--wait")
    answer = await deployed.cli("takeover", task_id, "take", "--reason", "x", "--yes", code=4)
    assert answer.sentence == f"task {task_id} has no open effect, so there is nothing to decide"
