from __future__ import annotations

import json

import pytest
from temporalio.service import RPCError

from ascertain.ports import EffectFilter
from ascertain.testing.knob import Rule, SubmitKnobs
from starter.process import free_port
from tests.cli.test_tasks import quarantined


async def stored(deployed, task_id: str) -> bool:
    """Whether anything of a task stands anywhere."""
    try:
        await deployed.client.temporal.get_workflow_handle(task_id).describe()
    except RPCError:
        return bool(await deployed.ledger.effects(EffectFilter(task_id=task_id)))
    return True


async def test_a_task_settles_and_its_result_is_shown(deployed):
    task_id = deployed.new_id()
    answer = await deployed.cli("submit", deployed.file(deployed.task(task_id)), "--wait")
    (fact,) = deployed.outside.books.facts_of(deployed.effect_id(task_id))
    assert f"Task {task_id} is started." in answer.out
    assert f"Task {task_id}: DONE." in answer.out
    assert fact.id in answer.out
    assert answer.err == ""


async def test_with_json_one_task_gives_one_document(deployed):
    task_id = deployed.new_id()
    file = deployed.file(deployed.task(task_id))
    answer = await deployed.cli("submit", file, "--wait", "--json", "--message-id", "m-1")
    assert answer.document["fate"] == "started"
    assert answer.document["task_id"] == task_id
    assert answer.document["result"]["outcome"] == "DONE"
    (row,) = await deployed.ledger.effects(EffectFilter(task_id=task_id))
    assert row.message_id == "m-1"


async def test_the_same_task_again_is_told_to_be_a_duplicate(deployed):
    task_id = deployed.new_id()
    file = deployed.file(deployed.task(task_id))
    await deployed.cli("submit", file, "--wait")
    again = await deployed.cli("submit", file, "--json")
    assert again.document["fate"] == "duplicate"
    assert len(deployed.outside.books.facts_of(deployed.effect_id(task_id))) == 1


async def test_the_same_id_with_other_content_is_a_conflict_and_the_first_stands(deployed):
    task_id = deployed.new_id()
    await deployed.cli("submit", deployed.file(deployed.task(task_id)), "--wait")
    other = deployed.task(task_id, partition="elsewhere")
    answer = await deployed.cli("submit", deployed.file(other), code=3)
    assert "was started before with other content" in answer.sentence
    assert answer.out == ""


async def test_a_task_on_standard_input_is_started(deployed):
    task_id = deployed.new_id()
    text = json.dumps(deployed.task(task_id), indent=2).encode()
    answer = await deployed.cli("submit", "-", "--json", stdin=text)
    assert answer.document["task_id"] == task_id


async def test_a_refused_task_ends_with_its_outcome_and_exit_code_8(deployed):
    task_id = deployed.new_id()
    effect_id = deployed.effect_id(task_id)
    no = SubmitKnobs.model_validate({"commit": "never", "reply": {"kind": "answer", "status": 400}})
    deployed.outside.rules.add(Rule(reference=effect_id, submit=no))
    answer = await deployed.cli(
        "submit", deployed.file(deployed.task(task_id)), "--within", "100s", code=8
    )
    assert f"Task {task_id}: REFUSED." in answer.out


async def test_waiting_ends_when_the_time_is_over_and_the_task_goes_on(deployed):
    task_id = deployed.new_id()
    await deployed.cli("pause", "waiting", "--reason", "test")
    file = deployed.file(deployed.task(task_id, partition="waiting"))
    answer = await deployed.cli("submit", file, "--within", "1s", code=9)
    # Whether it is known to be held by then is a matter of haste.
    assert answer.err.splitlines()[-1].startswith(f"ascertain: task {task_id} is not over")
    assert (await deployed.client.status(task_id)).outcome is None
    await deployed.cli("resume", "waiting", "--reason", "test")
    told = await deployed.cli("result", task_id, "--within", "100s", "--json")
    assert told.document["outcome"] == "DONE"


def broken(deployed, task_id: str) -> dict[str, tuple[str, str]]:
    """Tasks that must not come in: what is written, and a part of what must be said."""
    fine = deployed.task(task_id)
    step = fine["steps"][0]
    text = json.dumps(fine)

    def with_input(value: object) -> str:
        return json.dumps({**fine, "steps": [{**step, "input": {"text": value}}]})

    return {
        "an unknown kind": (
            json.dumps(deployed.task(task_id, "note.delete")),
            "no such kind of effect here: note.delete",
        ),
        "NaN": (text.replace(f'"for {task_id}"', "NaN"), "NaN is not a JSON number"),
        "an infinity": (text.replace(f'"for {task_id}"', "-Infinity"), "is not a JSON number"),
        "a number beyond every float": (
            text.replace(f'"for {task_id}"', "1e999"),
            "has no canonical JSON",
        ),
        "an integer beyond 2**53": (with_input(2**53 + 1), "has no canonical JSON"),
        "a number of 5000 digits": (text.replace(f'"for {task_id}"', "9" * 5000), "4300 digits"),
        "over-size": (with_input("x" * 300_000), "is too large (300"),
        "step names twice": (
            json.dumps({**fine, "steps": [step, step]}),
            "step names must be distinct; used more than once: note",
        ),
        "no steps": (json.dumps({**fine, "steps": []}), "steps: "),
        "a misspelt field": (json.dumps({**fine, "partiton": "x"}), "partiton: "),
        "a bad task id": (json.dumps({**fine, "task_id": f"{task_id} x"}), "task_id: "),
        "no task id": (json.dumps({**fine, "task_id": None}), "task without a task_id: task_id: "),
        "a bad partition": (json.dumps({**fine, "partition": "a/b"}), "partition: "),
        "a bad message id": (json.dumps({**fine, "message_id": "a b"}), "message_id: "),
        "a field twice": (
            text.replace('{"task_id"', '{"kind": "other", "task_id"', 1),
            "the field 'kind' stands twice",
        ),
        "a list": (f"[{text}]", "this is a list; write one task a line"),
        "half a document": (text[:-10], "not JSON: "),
        "too deep": (with_input(json.loads("[" * 40 + "]" * 40)), "nested deeper than 32 levels"),
        "much too deep": (text.replace(f'"for {task_id}"', "[" * 9999), "nested too deeply"),
        "half a character": (with_input("\ud800"), "has no canonical JSON"),
    }


async def test_what_must_not_come_in_is_refused_line_by_line_and_not_stored(deployed):
    task_id = deployed.new_id("bad")
    cases = broken(deployed, task_id)
    text = "\n".join(written for written, _ in cases.values())
    answer = await deployed.cli("submit", "-", "--jsonl", "--json", stdin=text.encode(), code=2)
    *lines, last = map(json.loads, answer.out.splitlines())
    assert last["summary"]["refused"] == len(cases)
    told = {line["line"]: line for line in lines}
    for number, (what, (_, said)) in enumerate(cases.items(), start=1):
        message = told[number]["error"]["message"]
        assert told[number]["fate"] == "refused", what
        assert said in message, what
        assert "\n" not in message
        column = f":{told[number]['error']['column']}" if what == "half a document" else ""
        line = f"standard input:{number}{column}: refused: {message}"
        assert line in answer.err.splitlines()
    assert not await stored(deployed, task_id)


@pytest.mark.parametrize("what", ["an unknown kind", "NaN", "over-size", "half a document"])
async def test_one_bad_task_ends_in_one_sentence_and_exit_code_2(deployed, what):
    task_id = deployed.new_id("bad")
    text, said = broken(deployed, task_id)[what]
    answer = await deployed.cli("submit", "-", "--json", stdin=text.encode(), code=2)
    assert said in answer.sentence
    assert answer.document["error"]["message"] == answer.sentence
    assert answer.document["error"]["exit_code"] == 2
    assert not await stored(deployed, task_id)


async def test_what_is_wrong_with_one_task_is_told_with_its_place_and_needs_no_server(cli):
    file = cli.folder / "night.json"
    file.write_text('{\n  "task_id": "t",\n  "kind" "greeting"\n}\n')
    answer = await cli("submit", "night.json", code=2)
    assert answer.sentence == "night.json:3:10: not JSON: expecting ':' delimiter"
    step = {"name": "note", "kind": "note.create", "inptu": {}}
    file.write_text(json.dumps({"task_id": "t", "kind": "greeting", "steps": [step]}, indent=2))
    answer = await cli("submit", "night.json", "--json", code=2)
    assert answer.sentence == (
        "night.json: task 't': steps.0.inptu: there is no such field (did you mean input?)"
    )
    assert answer.document["error"]["code"] == "invalid_task"


async def test_nothing_to_submit_is_told_so(deployed):
    answer = await deployed.cli("submit", "-", stdin=b" \n\n", code=2)
    assert "the input is empty" in answer.sentence


async def test_one_broken_line_is_told_with_its_number_and_the_others_go_on(deployed):
    first, third, fifth = (deployed.new_id() for _ in range(3))
    file = deployed.file(
        deployed.task(first),
        '{"task_id": "half", ',
        deployed.task(third),
        "",
        deployed.task(fifth),
        deployed.task("nobody", "note.delete"),
        name="tasks.jsonl",
    )
    answer = await deployed.cli("submit", file, "--wait", code=11)
    said = answer.err.splitlines()
    assert len(said) == 2
    assert said[0].startswith(f"{file}:2:20: refused: not JSON: ")
    assert said[1].startswith(f"{file}:6: refused: task 'nobody': no such kind of effect here")
    assert "5 lines: 3 started, 2 refused." in answer.out
    assert "Results: 3 DONE." in answer.out
    for task_id in (first, third, fifth):
        assert len(deployed.outside.books.facts_of(deployed.effect_id(task_id))) == 1
    assert not await stored(deployed, "nobody")


async def test_a_stream_can_be_submitted_again_and_tells_what_was_there(deployed):
    known, fresh, changed = (deployed.new_id() for _ in range(3))
    await deployed.cli(
        "submit", deployed.file(deployed.task(known), deployed.task(changed)), "--wait"
    )
    file = deployed.file(
        deployed.task(known), deployed.task(fresh), deployed.task(changed, partition="other")
    )
    answer = await deployed.cli("submit", file, "--json", code=11)
    *lines, last = map(json.loads, answer.out.splitlines())
    fates = {line["task_id"]: line["fate"] for line in lines}
    assert fates == {known: "duplicate", fresh: "started", changed: "conflict"}
    assert {line["line"] for line in lines} == {1, 2, 3}
    assert last["exit_code"] == 11
    summary = last["summary"]
    assert (summary["lines"], summary["duplicate"], summary["conflict"]) == (3, 1, 1)


async def test_of_one_id_with_two_contents_in_a_file_neither_line_is_started(deployed):
    twice, fine = deployed.new_id(), deployed.new_id()
    first, other = deployed.task(twice), deployed.task(twice, partition="b")
    file = deployed.file(first, deployed.task(fine), deployed.task(fine), other, name="t.jsonl")
    told = await deployed.cli("submit", file, "--json", "--wait", code=11)
    for line in (1, 4):
        assert f"{file}:{line}: refused: task '{twice}' stands in lines 1 and 4" in told.err
    assert not await stored(deployed, twice)
    assert len(deployed.outside.books.facts_of(deployed.effect_id(fine))) == 1


async def test_a_message_id_is_refused_for_a_stream(deployed):
    ids = deployed.new_id(), deployed.new_id()
    file = deployed.file(*map(deployed.task, ids))
    answer = await deployed.cli("submit", file, "--message-id", "m", code=2)
    assert "--message-id is for one task" in answer.sentence
    assert not await stored(deployed, ids[0])


async def test_without_a_server_one_task_ends_with_exit_code_6(cli, tmp_path):
    file = tmp_path / "task.json"
    step = {"name": "note", "kind": "note.create", "input": {}}
    file.write_text(json.dumps({"task_id": "t", "kind": "greeting", "steps": [step]}))
    address = f"127.0.0.1:{free_port()}"
    answer = await cli("submit", str(file), "--json", code=6, TEMPORAL_ADDRESS=address)
    assert f"no Temporal server answers at {address}" in answer.sentence
    assert answer.document["error"]["code"] == "temporal_down"


async def test_what_is_wrong_with_a_task_is_told_without_a_server(cli):
    answer = await cli("submit", "-", stdin=b'{"task_id": "t", "steps": []}', code=2)
    assert answer.sentence.startswith("standard input: task 't': kind: is missing")


async def test_an_interrupted_stream_is_finished_by_the_same_command_again(deployed):
    ids = [deployed.new_id() for _ in range(12)]
    lines = [json.dumps(deployed.task(task_id)).encode() + b"\n" for task_id in ids]
    process = await deployed.cli.start("submit", "-", "--jsonl", "--json", "--concurrency", "2")
    process.stdin.write(b"".join(lines[:5]))
    for _ in range(3):
        assert json.loads(await process.stdout.readline())["fate"] == "started"
    process.kill()
    await process.communicate()
    whole = b"".join(lines)
    answer = await deployed.cli("submit", "-", "--jsonl", "--json", "--wait", stdin=whole)
    *told, last = map(json.loads, answer.out.splitlines())
    assert {line["task_id"] for line in told} == set(ids)
    summary = last["summary"]
    assert summary["started"] + summary["duplicate"] == len(ids)
    assert summary["duplicate"] >= 3
    assert summary["outcomes"] == {"DONE": len(ids)}
    for task_id in ids:
        assert len(deployed.outside.books.facts_of(deployed.effect_id(task_id))) == 1


async def test_a_file_that_cannot_be_read_is_a_usage_error(cli):
    answer = await cli("submit", "not-there.json", code=2)
    assert answer.sentence.startswith("Invalid value: cannot read not-there.json: No such file")


async def test_a_folder_is_a_usage_error(cli, tmp_path):
    answer = await cli("submit", str(tmp_path), code=2)
    assert answer.sentence.startswith(f"Invalid value: cannot read {tmp_path}: it is a folder")


async def test_who_waits_for_a_task_that_needs_a_person_is_told_so_and_how(deployed):
    task_id = await quarantined(deployed)
    file = deployed.file(deployed.task(task_id, "note.blind"))
    told = f"What is known and what is safe next: `./run explain {task_id}`."
    waiting = await deployed.cli.start("submit", file, "--wait", ASCERTAIN_COMMAND="./run")
    noted = (await waiting.stderr.readline()).decode()
    waiting.terminate()
    await waiting.communicate()
    assert noted == f"Task {task_id} waits for a person. {told} The wait goes on.\n"
    ways = {"ASCERTAIN_COMMAND": "./run"}
    answer = await deployed.cli("submit", file, "--within", "100ms", code=9, **ways)
    ended = answer.err.splitlines()[-1]
    assert ended == f"ascertain: task {task_id} is not over: it waits for a person. {told}"
