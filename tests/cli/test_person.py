from __future__ import annotations

import asyncio
import os
import pty
import re
import shlex
from typing import Self

import asyncpg
import pytest

from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import Receipt
from ascertain.contracts.task import Task
from ascertain.ports import EffectFilter
from ascertain.testing.knob import Rule
from tests.cli.conftest import PROGRAM
from tests.cli.test_tasks import LOST, quarantined, standing
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
    shown = await deployed.cli("show", task_id)
    assert "error class" not in shown.out, "what once was wrong with it is over"


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


async def test_a_fact_of_another_effect_is_refused_with_its_task_and_what_to_do(deployed):
    other, task_id = await quarantined(deployed), await quarantined(deployed)
    (fact,) = deployed.outside.books.facts_of(deployed.effect_id(other))
    said = ("--reason", "seen in the books", "--external-id", fact.id)
    for each, code in ((other, 0), (task_id, 4)):
        version = ("--version", str((await standing(deployed, each)).version))
        answer = await deployed.cli(
            "takeover", each, "confirm", *said, *version, "--json", code=code
        )
        if each == other:
            assert answer.document["standing"]["safe_next"] == []  # its step declares no undo
    assert answer.sentence == (
        f"task {task_id}: confirm refused: the fact {fact.id} already proves effect "
        f"{deployed.effect_id(other)} of task {other}; `ascertain explain {other}` tells on which evidence; "
        "confirm with the external_id of this effect's own fact, or deny it if there is none"
    )
    assert (await row(deployed, task_id)).state == "QUARANTINED"


async def test_an_outside_that_cannot_be_asked_is_not_told_to_be_asked_now(deployed):
    task_id = await quarantined(deployed)
    told = await deployed.cli("reconcile", task_id)
    assert "was told to look now, but its outside cannot be asked" in told.out
    assert (await deployed.cli("reconcile", task_id, "--json")).document["asked"] is False


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


class Asked:
    """A takeover at a terminal that shows what it is about and waits for an answer."""

    def __init__(self, deployed, *words: str) -> None:
        self._deployed = deployed
        self._words = words

    async def __aenter__(self) -> Self:
        self._ours, theirs = pty.openpty()
        self._process = await asyncio.create_subprocess_exec(
            PROGRAM,
            *("takeover", *self._words),
            stdin=theirs,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._deployed.cli.environment,
        )
        os.close(theirs)
        async with asyncio.timeout(120):
            self.shown = (await self._process.stderr.readuntil(b"[y/N]")).decode()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        os.close(self._ours)
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def say(self, answer: str) -> tuple[int, str]:
        os.write(self._ours, f"{answer}\n".encode())
        _, err = await self._process.communicate()
        return self._process.returncode, err.decode()


@pytest.mark.parametrize(("said", "code"), [("y", 0), ("n", 4)])
async def test_a_person_at_a_terminal_is_shown_the_version_and_asked(deployed, said, code):
    task_id = await quarantined(deployed)
    before = await row(deployed, task_id)
    async with Asked(deployed, task_id, "retry", "--reason", "x") as asked:
        assert f"QUARANTINED, version {before.version}" in asked.shown
        assert "retry it as ada? [y/N]" in asked.shown
        answered, err = await asked.say(said)
    assert answered == code
    assert ("you said no, so nothing was done" in err) == (said == "n")
    applied = [event.move for event in await deployed.ledger.audit(before.effect_id)][3:4]
    assert applied == (["retry"] if code == 0 else [])


async def test_a_decision_is_about_the_effect_that_was_shown_and_no_later_one(deployed):
    task_id = deployed.new_id("two-steps")
    task = deployed.task(task_id, "note.blind")
    task["steps"].append({**task["steps"][0], "name": "second"})
    for step in ("note", "second"):
        reference = deployed.effect_id(task_id, step)
        deployed.outside.rules.add(Rule(reference=reference, submit=LOST))
    await deployed.client.submit(Task(**task))
    first = await wait_until(lambda: standing(deployed, task_id), what="the first quarantine")
    async with Asked(
        deployed, task_id, "confirm", "--reason", "x", "--external-id", "f-2"
    ) as asked:
        (fact,) = deployed.outside.books.facts_of(deployed.effect_id(task_id))
        seen = Command(
            action=Action.CONFIRM,
            operator="grace",
            reason="seen",
            version=first.version,
            receipt=Receipt(external_id=fact.id),
        )
        assert (await deployed.client.takeover(task_id, seen)).applied

        async def at_second():
            opened = (await deployed.client.status(task_id)).open
            stuck = opened and opened.step == "second" and opened.doing == "quarantined"
            return opened.standing if stuck else None

        second = await wait_until(at_second, what="the second quarantine")
        assert second.version == first.version
        code, err = await asked.say("y")
    assert code == 4
    assert f"the open effect is {deployed.effect_id(task_id, 'second')}, not" in err
    trail = await deployed.ledger.audit(deployed.effect_id(task_id, "second"))
    assert [event.move for event in trail] == ["claim", "doubt", "quarantine"]


async def test_what_somebody_else_has_is_refused_with_who_that_is_and_what_can_be_done(deployed):
    task_id, before = await decidable(deployed)
    word = ("--version", str(before.version), "--reason", "on it")
    await deployed.cli("takeover", task_id, "take", "--operator", "grace", *word)
    mine = ("--version", str(before.version + 1), "--reason", "mine")
    for action in ("release", "abandon"):
        answer = await deployed.cli("takeover", task_id, action, "--operator", "ada", *mine, code=4)
        assert answer.sentence == (
            f"task {task_id}: {action} refused: grace has taken it over, and it moves in that name alone: "
            "ask grace to release it; if nobody of that name can be reached, release it as operator grace "
            "and say who you are in the reason"
        )
    why = ("--version", str(before.version + 1), "--reason", "ada, for grace, who is ill")
    await deployed.cli("takeover", task_id, "release", "--operator", "grace", *why)
    await wait_until(lambda: standing(deployed, task_id), what="the quarantine")
    late = ("--version", str((await row(deployed, task_id)).version), "--reason", "x")
    answer = await deployed.cli("takeover", task_id, "release", *late, code=4)
    assert (
        "release is not possible while the effect is QUARANTINED; possible is take, "
        in answer.sentence
    )


async def test_what_is_no_command_is_refused_before_it_is_sent(deployed):
    task_id = await quarantined(deployed)
    given = ("takeover", task_id, "deny", "--version", "3", "--reason")
    for more, said in (
        ((" ",), "'--reason': it is empty"),
        (("x", "--evidence", "[1]"), "--evidence must be a JSON object"),
        (("x", "--evidence", "{"), "--evidence is not JSON"),
        (("x", "--request-id", "r" * 101), "request_id: "),
    ):
        assert said in (await deployed.cli(*given, *more, code=2)).sentence
    fact = ("--version", "3", "--reason", "x", "--external-id", "fact-1")
    answer = await deployed.cli("takeover", task_id, "take", *fact, code=2)
    assert "--external-id would be passed over by take: confirm takes it" in answer.sentence
    answer = await deployed.cli("takeover", task_id, "destroy", "--reason", "x", code=2)
    assert "destroy" in answer.sentence


async def test_a_task_without_an_open_effect_cannot_be_decided(deployed):
    task_id = deployed.new_id()
    await deployed.cli("submit", deployed.file(deployed.task(task_id)), "--wait")
    answer = await deployed.cli("takeover", task_id, "take", "--reason", "x", "--yes", code=4)
    assert answer.sentence == f"task {task_id} is DONE, so there is nothing to decide"


@pytest.mark.parametrize(
    "given", [("takeover", "take", "--reason", "x", "--version", "2"), ("reconcile",), ("cancel",)]
)
async def test_a_task_that_is_over_is_told_to_be_so_and_one_that_never_was_to_be_missing(
    deployed, given
):
    task_id = deployed.new_id()
    await deployed.cli("submit", deployed.file(deployed.task(task_id)), "--wait")
    command, *more = given
    answer = await deployed.cli(command, task_id, *more, code=4)
    assert answer.sentence == f"task {task_id} is DONE, so nothing can be told it any more"
    answer = await deployed.cli(command, "never-was", *more, code=5)
    assert answer.sentence == "there is no task never-was"


async def test_a_command_for_a_task_that_never_was_says_so_before_it_asks_for_which_version(
    deployed,
):
    given = ("takeover", "never-was", "take", "--reason", "x", "--yes")
    assert (await deployed.cli(*given, code=5)).sentence == "there is no task never-was"


async def decidable(deployed, **more):
    """A quarantined task about which a person may decide now, and its row."""
    task_id = await quarantined(deployed, **more)
    await deployed.cli("wait", task_id, "--within", "100s")
    return task_id, await row(deployed, task_id)


async def test_an_input_is_amended_by_the_line_that_is_advised_and_the_old_one_is_never_done(
    deployed,
):
    task_id, before = await decidable(deployed)
    told = (await deployed.cli("explain", task_id, "--json")).document["safe_next"]
    (line,) = [item["command"] for item in told if item["action"] == "amend"]
    assert "--input JSON --evidence JSON" in line
    given = ("takeover", task_id, "amend", "--version", str(before.version), "--reason", "a typo")
    changed = deployed.file({"text": "mended"}, name="input.json")
    answer = await deployed.cli(*given, "--input", f"@{changed}", code=4)
    assert "give as evidence what shows that it does not exist" in answer.sentence
    seen = ("--evidence", '{"statement": "without it"}')
    await deployed.cli(*given, "--input", '{"text": "mended"}', *seen)
    result = await deployed.client.result(task_id)
    (fact,) = deployed.outside.books.facts_of(result.steps[0].effect_id)
    assert fact.content["text"] == "mended"
    assert result.steps[0].effect_id != before.effect_id
    shown = (await deployed.cli("show", task_id, "--json")).document["effects"]
    inputs = {each["state"]: each["input"] for each in shown}
    assert inputs == {
        "SUPERSEDED": deployed.task(task_id)["steps"][0]["input"],
        "SETTLED": {"text": "mended"},
    }
    assert '  input       {"text": "mended"}' in (await deployed.cli("show", task_id)).out
    told = await deployed.cli("explain", task_id)
    assert '  Its new input is {"text": "mended"}' in told.out
    assert "ada replaced its input: a typo." in told.out
    assert f"It replaces {before.effect_id}" in told.out


async def undoable(deployed) -> str:
    """A task with a settled step that declares an undo, and whose second step waits for a person."""
    task_id = deployed.new_id("undo")
    task = deployed.task(task_id)
    task["steps"][0]["undo"] = {"kind": "note.create", "input": {"text": "taken back"}}
    task["steps"].append({**deployed.task(task_id, "note.blind")["steps"][0], "name": "second"})
    deployed.outside.rules.add(Rule(reference=deployed.effect_id(task_id, "second"), submit=LOST))
    await deployed.client.submit(Task(**task))
    await deployed.cli("wait", task_id, "--within", "100s")
    return task_id


async def test_a_settled_step_is_taken_back_by_the_line_that_is_advised(deployed):
    task_id = await undoable(deployed)
    told = (await deployed.cli("explain", task_id, "--json")).document["safe_next"]
    (line,) = [item["command"] for item in told if item["action"] == "undo"]
    words = shlex.split(line.replace("WHY", "ordered twice"))[1:]
    await deployed.cli(*words)
    undone = deployed.effect_id(task_id, "note~undo")

    async def taken_back():
        case = await deployed.ledger.inspect(undone)
        return case is not None and case.row.state == "SETTLED"

    await wait_until(taken_back, what="the undo")
    shown = (await deployed.cli("show", task_id)).out
    assert re.search(r"ada\s+undo\s+ada: ordered twice", shown)
    fact = deployed.outside.books.facts_of(deployed.effect_id(task_id))[0].id
    back = deployed.outside.books.facts_of(undone)[0].id
    gone = f"It existed outside as {fact} and was taken back: step note~undo, {back}."
    assert gone in shown
    told = (await deployed.cli("explain", task_id)).out
    assert gone in told
    assert "ada ordered that it be taken back: ordered twice." in told
    documents = (await deployed.cli("show", task_id, "--json")).document["effects"]
    undos = {each["step"]: each["undo"] for each in documents}
    assert undos["note"] == {"effect_id": undone, "state": "SETTLED"}
    assert (undos["second"], undos["note~undo"]) == (None, None)
    again = await deployed.cli(*words, code=4)
    assert again.sentence.endswith("is taken back was ordered already")
    answer = await deployed.cli("takeover", task_id, "undo", "--reason", "x", "--yes", code=4)
    assert answer.sentence.endswith("that declares an undo and still has it; there is none")
    other = ("undo", "--reason", "x", "--yes", "--effect", "ef1-other")
    answer = await deployed.cli("takeover", task_id, *other, code=4)
    assert answer.sentence.endswith("there is none")


async def test_a_command_that_named_no_version_gets_its_first_answer_when_it_comes_again(deployed):
    ended, taken_back = (await decidable(deployed))[0], await undoable(deployed)
    for task_id, action, otherwise in (
        (ended, "abandon", "is ABANDONED, so there is nothing to decide"),
        (taken_back, "undo", "there is none"),
    ):
        given = ("takeover", task_id, action, "--yes", "--reason", "x", "--request-id")
        first = await deployed.cli(*given, "r-1")
        if action == "abandon":
            await deployed.cli("wait", task_id, "--within", "100s")
        assert (await deployed.cli(*given, "r-1")).out == first.out
        assert otherwise in (await deployed.cli(*given, "r-2", code=4)).sentence


async def test_the_one_step_that_can_be_taken_back_need_not_be_named_and_is_shown_first(deployed):
    task_id = await undoable(deployed)
    async with Asked(deployed, task_id, "undo", "--reason", "ordered twice") as asked:
        assert f"step note, effect {deployed.effect_id(task_id)}" in asked.shown
        assert "SETTLED, version 2, since" in asked.shown
        code, _ = await asked.say("y")
    assert code == 0
    undone = deployed.effect_id(task_id, "note~undo")
    await wait_until(lambda: deployed.outside.books.facts_of(undone), what="the undo")


async def test_above_the_limit_the_first_command_ends_with_10_and_a_second_person_applies_it(
    deployed,
):
    task_id, before = await decidable(deployed, kind="note.watched")
    given = ("takeover", task_id, "deny", "--version", str(before.version), "--reason", "not there")
    first = await deployed.cli(*given, "--json", code=10)
    assert first.document["error"]["code"] == "awaits_second_person"
    assert first.document["error"]["answer"]["pending"] is True
    assert "a second person" in (await deployed.cli(*given, code=10)).sentence
    assert "A command waits for a second person" in (await deployed.cli("explain", task_id)).out
    await deployed.cli(*given, "--operator", "grace")
    result = await deployed.client.result(task_id)
    assert result.outcome == "DONE"
    trail = await deployed.ledger.audit(before.effect_id)
    (denied,) = [event for event in trail if event.move == "deny"]
    assert denied.evidence.body["persons"] == ["ada", "grace"]


REFUSES_TO_WRITE = """
create function ascertain.full_disk() returns trigger language plpgsql as
$$ begin raise exception 'no space' using errcode = '53100'; end $$;
create trigger full_disk before update on ascertain.effects
for each row when (new.task_id = '%s') execute function ascertain.full_disk();
"""


async def test_a_command_that_the_ledger_did_not_answer_is_in_doubt_and_to_be_given_again(deployed):
    task_id = await quarantined(deployed)
    connection = await asyncpg.connect(deployed.cli.environment["ASCERTAIN_LEDGER_URL"])
    version = str((await row(deployed, task_id)).version)
    given = ("takeover", task_id, "take", "--reason", "x", "--version", version)
    await connection.execute(REFUSES_TO_WRITE % task_id)
    try:
        answer = await deployed.cli(*given, code=6)
    finally:
        await connection.execute("drop function ascertain.full_disk cascade")
        await connection.close()
    assert f"task {task_id}: take is not known to be applied, look at the status" in answer.sentence
    assert "nothing is known to be changed: give the same command again" in answer.sentence
    assert "by itself" not in answer.sentence
