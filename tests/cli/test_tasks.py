from __future__ import annotations

import asyncio
import dataclasses

import pytest
from temporalio.client import Client as TemporalClient

from ascertain.client import Client
from ascertain.codec import EncryptionCodec, new_key, parse_keys
from ascertain.contracts import names
from ascertain.contracts.task import Task
from ascertain.testing.knob import Rule, SubmitKnobs
from starter.process import free_port
from tests.waiting import wait_until

LOST = SubmitKnobs.model_validate({"reply": {"kind": "drop"}})


async def quarantined(deployed, kind="note.blind", **more) -> str:
    """A task whose answer was lost and that nobody can ask for: a person has to decide."""
    task_id = deployed.new_id("blind")
    deployed.outside.rules.add(Rule(times=1, reference=deployed.effect_id(task_id), submit=LOST))
    await deployed.client.submit(Task(**deployed.task(task_id, kind, **more)))
    await wait_until(lambda: standing(deployed, task_id), what="a quarantined effect")
    return task_id


async def standing(deployed, task_id: str):
    opened = (await deployed.client.status(task_id)).open
    known = opened.standing if opened is not None else None
    return known if known is not None and known.state == "QUARANTINED" else None


async def listed(deployed, *arguments: str) -> dict[str, dict]:
    answer = await deployed.cli("list", "--json", *arguments)
    return {task["task_id"]: task for task in answer.document["tasks"]}


async def test_show_tells_every_effect_with_its_attempts_and_what_is_safe(deployed):
    task_id = await quarantined(deployed)
    answer = await deployed.cli("show", task_id)
    assert f"Task {task_id} waits for a person to decide about step note." in answer.out
    assert deployed.effect_id(task_id) in answer.out
    assert "QUARANTINED" in answer.out
    version = (await standing(deployed, task_id)).version
    at = f"--effect {deployed.effect_id(task_id)} --version {version}"
    assert f"ascertain takeover {task_id} take {at}" in answer.out
    shown = (await deployed.cli("show", task_id, "--json")).document
    (effect,) = shown["effects"]
    assert [event["move"] for event in effect["audit"]] == ["claim", "doubt", "quarantine"]
    assert effect["state"] == "QUARANTINED"
    assert effect["input"] == {"text": f"for {task_id}"}
    assert f'  input       {{"text": "for {task_id}"}}' in answer.out
    assert effect["frozen_bytes"] > 0
    assert "frozen" not in effect
    assert shown["status"]["open"]["effect_id"] == effect["effect_id"]
    assert shown["not_asked"] == []
    assert "take" in {item["action"] for item in shown["safe_next"]}


async def test_an_input_is_shown_as_it_was_given_and_a_long_one_shortened(
    deployed,
):
    task_id = deployed.new_id()
    steps = [
        {"name": "note", "kind": "note.create", "input": {"text": f"secret:TOKEN {'x' * 600}"}}
    ]
    await deployed.client.submit(Task(task_id=task_id, kind="greeting", steps=steps))
    shown = (await deployed.cli("show", task_id)).out
    assert f'{{"text": "secret:TOKEN {"x" * 475}' in shown
    assert "x" * 500 not in shown
    assert "... (`show --json` has it whole)" in shown
    whole = (await deployed.cli("show", task_id, "--json")).document
    assert whole["effects"][0]["input"] == steps[0]["input"]
    assert whole["not_asked"] == []


async def test_an_input_that_is_encrypted_under_keys_of_others_is_said_to_be_unreadable(deployed):
    temporal, task_id = deployed.client.temporal, deployed.new_id()
    sealing = EncryptionCodec(parse_keys(new_key("theirs"), "test"))
    converter = dataclasses.replace(temporal.data_converter, payload_codec=sealing)
    theirs = TemporalClient(
        temporal.service_client, namespace=temporal.namespace, data_converter=converter
    )
    handle = await theirs.start_workflow(
        names.TASK_WORKFLOW, deployed.task(task_id), id=task_id, task_queue="nobody"
    )
    await handle.terminate()
    shown = await deployed.cli("show", task_id)
    assert "The task's input cannot be read: it is encrypted under keys that are not here" in (
        shown.out
    )


async def test_explain_tells_the_case_in_words_and_names_the_program_as_it_was_called(deployed):
    task_id = await quarantined(deployed)
    answer = await deployed.cli("explain", task_id, ASCERTAIN_COMMAND="./run")
    assert "nothing proves that attempt 1 did not happen" in answer.out
    assert f"  ./run takeover {task_id} take --effect" in answer.out
    told = (await deployed.cli("explain", task_id, "--json")).document
    assert told["headline"].startswith(f"Task {task_id} waits for a person")
    assert len(told["chapters"]) == 2


async def test_a_task_that_was_turned_away_is_told_with_why_and_with_no_input_of_its_own(deployed):
    stream, task_id = deployed.new_id("stream"), deployed.new_id()
    first = deployed.file(deployed.task(task_id))
    await deployed.cli("submit", first, "--bulk", stream)
    changed = deployed.task(task_id)
    changed["steps"][0]["input"]["text"] = "something else"
    await deployed.client.submit(Task(**changed))
    await deployed.cli("result", task_id, code=3)
    told = (await deployed.cli("explain", task_id)).out
    assert f"Task {task_id} failed: " in told
    assert "the ledger holds other content under this id" in told.splitlines()[0]
    assert "Nothing needs to be done" not in told
    assert "ascertain submit FILE" in told
    assert "under a new task_id" in told
    shown = (await deployed.cli("show", task_id, "--json")).document
    assert "the ledger holds other content under this id" in shown["failure"]
    assert [effect["input"] for effect in shown["effects"]] == [None]


async def test_show_works_with_the_ledger_alone_and_says_what_it_could_not_ask(deployed):
    task_id = await quarantined(deployed)
    away = f"127.0.0.1:{free_port()}"
    answer = await deployed.cli("show", task_id, code=6, TEMPORAL_ADDRESS=away)
    assert "whether somebody pursues it cannot be asked" in answer.out
    assert f"Temporal: no Temporal server answers at {away}" in answer.out
    assert deployed.effect_id(task_id) in answer.out
    assert "Nothing needs to be done" not in answer.out


async def test_show_works_with_the_workflow_alone_and_says_what_it_could_not_ask(deployed):
    task_id = await quarantined(deployed)
    away = f"postgresql://ascertain:hunter2@127.0.0.1:{free_port()}/x"
    for url, why, code in ((away, "The ledger: the ledger at", 6), (None, "none is configured", 0)):
        answer = await deployed.cli("show", task_id, code=code, ASCERTAIN_LEDGER_URL=url)
        assert f"Task {task_id} waits for a person" in answer.out
        assert why in answer.out
        assert "hunter2" not in answer.out + answer.err


async def test_a_ledger_that_cannot_be_asked_is_never_told_as_nothing_to_be_done(deployed):
    task_id = deployed.new_id()
    await deployed.client.submit(Task(**deployed.task(task_id)))
    await deployed.cli("result", task_id, "--within", "100s")
    assert "Nothing needs to be done." in (await deployed.cli("show", task_id)).out
    away = f"postgresql://ascertain:hunter2@127.0.0.1:{free_port()}/x"
    for command in ("show", "explain"):
        answer = await deployed.cli(command, task_id, code=6, ASCERTAIN_LEDGER_URL=away)
        assert f"Task {task_id} is done: every step exists outside." in answer.out
        assert "Nothing needs to be done" not in answer.out
        assert "That is not the whole case" in answer.out
        assert "  ascertain doctor" in answer.out
        assert "by itself" not in answer.out
        told = await deployed.cli(command, task_id, "--json", code=6, ASCERTAIN_LEDGER_URL=away)
        assert [each["command"] for each in told.document["safe_next"]] == ["ascertain doctor"]
        assert (
            "Bring it back: The ledger: the ledger at 127.0"
            in told.document["safe_next"][0]["meaning"]
        )
    report = await deployed.cli("report", task_id, code=6, ASCERTAIN_LEDGER_URL=away)
    assert "That is not the whole case" in report.out


async def test_what_nobody_can_be_asked_for_is_not_called_missing(deployed):
    away = f"127.0.0.1:{free_port()}"
    answer = await deployed.cli("explain", "nowhere", "--json", code=6, TEMPORAL_ADDRESS=away)
    assert answer.sentence.startswith("nothing can be said of task nowhere: ")
    assert answer.document["error"]["code"] == "unavailable"


@pytest.mark.parametrize("command", ["show", "explain", "result", "reconcile", "cancel"])
async def test_a_task_that_does_not_exist_ends_with_exit_code_5(deployed, command):
    answer = await deployed.cli(command, "nowhere", "--json", code=5)
    assert answer.document["error"]["code"] == "not_found"
    assert "nowhere" in answer.sentence


async def test_a_workflow_that_is_no_task_is_not_taken_for_one(deployed):
    name = deployed.new_id("other")
    await deployed.client.temporal.start_workflow("Other", id=name, task_queue="nobody")
    answer = await deployed.cli("show", name, code=5)
    assert answer.sentence == (
        f"there is no task {name} ({name} is a workflow of type Other and no task)"
    )
    await deployed.client.temporal.get_workflow_handle(name).terminate()


async def test_list_finds_tasks_by_state_partition_and_kind(deployed):
    task_id = await quarantined(deployed, partition="list-a")
    smooth = deployed.new_id()
    task = Task(**deployed.task(smooth, partition="list-a"))
    await deployed.client.submit(task)
    await deployed.client.result(smooth)

    wanted = {
        task_id: ("QUARANTINED", "RUNNING", "no_lookup"),
        smooth: ("DONE", "COMPLETED", None),
    }

    async def both():  # a search lags
        found = await listed(deployed, "--partition", "list-a")
        keys = ("state", "workflow", "error_class")
        return {name: tuple(told[key] for key in keys) for name, told in found.items()} == wanted

    await wait_until(both, what="both tasks in the list as they are")
    inside = ("--partition", "list-a")
    assert set(await listed(deployed, "--quarantined", *inside)) == {task_id}
    assert set(await listed(deployed, "--state", "done", *inside)) == {smooth}
    assert set(await listed(deployed, "--state", "RUNNING", *inside)) == set()
    running_first = await listed(deployed, "--kind", "greeting", "--limit", "1", *inside)
    assert set(running_first) == {task_id}
    assert await listed(deployed, "--kind", "other", *inside) == {}
    table = await deployed.cli("list", *inside)
    assert f"{task_id}  greeting  list-a     QUARANTINED" in table.out


async def test_a_list_shows_the_newest_run_of_a_task_and_no_label_of_one_that_was_ended(deployed):
    task_id = await quarantined(deployed, partition="list-n")
    inside = ("--partition", "list-n")

    async def state(*wanted):
        found = await listed(deployed, *inside)
        task = found.get(task_id, {})
        return (task.get("state"), task.get("workflow")) == wanted

    await wait_until(lambda: state("QUARANTINED", "RUNNING"), what="a list that shows it")
    await deployed.client.temporal.get_workflow_handle(task_id).terminate("by hand")
    await wait_until(lambda: state("TERMINATED", "TERMINATED"), what="a list that shows its end")
    assert await listed(deployed, "--state", "QUARANTINED", *inside) == {}
    assert set(await listed(deployed, "--state", "TERMINATED", *inside)) == {task_id}
    told = (await deployed.cli("explain", task_id)).out
    assert "was ended from outside while an effect of it is not resolved" in told
    assert "until a sweep takes it up again and has it asked for" in told
    assert "  ascertain sweep\n" in told
    await deployed.client.submit(Task(**deployed.task(task_id, "note.blind", partition="list-n")))
    await wait_until(lambda: state("QUARANTINED", "RUNNING"), what="the newest run in the list")
    answer = await deployed.cli("list", "--json", *inside)
    assert [task["task_id"] for task in answer.document["tasks"]] == [task_id]
    assert await listed(deployed, "--state", "TERMINATED", *inside) == {}
    assert set(await listed(deployed, "--quarantined", *inside)) == {task_id}


async def test_a_state_that_no_task_is_ever_in_is_refused(deployed):
    answer = await deployed.cli("list", "--state", "' OR '1'='1", code=2)
    assert "no task is ever" in answer.sentence
    answer = await deployed.cli("list", "--partition", "a' OR '1'='1", code=2)
    assert "cannot be the name of a partition" in answer.sentence


async def test_result_waits_and_its_exit_code_says_whether_the_task_is_done(deployed):
    task_id = deployed.new_id()
    await deployed.client.submit(Task(**deployed.task(task_id)))
    answer = await deployed.cli("result", task_id, "--within", "100s")
    assert f"Task {task_id}: DONE." in answer.out
    waiting = await quarantined(deployed)
    over = await deployed.cli("result", waiting, "--within", "200ms", "--json", code=9)
    assert over.document["error"]["code"] == "not_over"


async def test_a_state_can_be_waited_for_and_then_every_search_shows_it(deployed):
    task_id = await quarantined(deployed)
    reached = await deployed.cli("wait", task_id, "--state", "quarantined", "--json")
    assert (reached.document["state"], reached.document["error_class"]) == (
        "QUARANTINED",
        "no_lookup",
    )
    assert task_id in await listed(deployed, "--state", "QUARANTINED", "--limit", "10000")
    version = str((await standing(deployed, task_id)).version)
    assert "is QUARANTINED" in (await deployed.cli("wait", task_id, "--within", "100s")).out
    now = ("--version", version, "--reason", "nobody may decide before it can be decided")
    await deployed.cli("takeover", task_id, "abandon", *now)
    over = await deployed.cli("wait", task_id)
    assert over.out == f"Task {task_id} is ABANDONED.\n"
    await deployed.cli("wait", task_id, "--state", "DONE", code=8)


async def test_a_wait_says_what_it_did_not_come_to(deployed):
    task_id = await quarantined(deployed)
    late = await deployed.cli("wait", task_id, "--state", "DONE", "--within", "1s", code=9)
    ended = late.err.splitlines()[
        -1
    ]  # after the note that it waits for a person, if that came in time
    assert f"task {task_id} is not over: it waits for a person" in ended
    assert (await deployed.cli("wait", "never-was", code=5)).sentence == (
        "there is no task never-was"
    )
    assert (
        "no task is ever 'GONE'"
        in (await deployed.cli("wait", task_id, "--state", "GONE", code=2)).sentence
    )


async def test_whoever_waits_for_a_held_task_is_told_what_holds_it_and_goes_on_waiting(deployed):
    task_id = deployed.new_id("held")
    await deployed.cli("pause", "wait-a", "--reason", "test")
    await deployed.client.submit(Task(**deployed.task(task_id, partition="wait-a")))
    waiting = [await deployed.cli.start(what, task_id) for what in ("wait", "result")]
    for process in waiting:
        async with asyncio.timeout(60):
            noted = (await process.stderr.readline()).decode()
        assert noted == (
            f"Task {task_id} is held by a closed gate. `ascertain partitions` says which, by whom and why; "
            "`ascertain resume wait-a` opens that of its partition, `ascertain resume --all` that of "
            "every one. The wait goes on.\n"
        )
    late = await deployed.cli("result", task_id, "--within", "100ms", code=9)
    assert "is not over: it is held by a closed gate" in late.err.splitlines()[-1]
    await deployed.cli("resume", "wait-a")
    for process in waiting:
        out, err = await process.communicate()
        assert (process.returncode, err) == (0, b""), err
        assert b"DONE" in out


async def test_whoever_waits_for_a_task_that_no_worker_serves_is_told_so(deployed):
    task_id = deployed.new_id("unserved")
    nobody = Client(deployed.client.temporal, task_queue="nobody-serves-this")
    await nobody.submit(Task(**deployed.task(task_id)))
    late = await deployed.cli("wait", task_id, "--within", "100ms", code=9)
    assert late.err.splitlines()[-1] == (
        f"ascertain: task {task_id} is not over: it stands still: nobody served task queue "
        "nobody-serves-this within the last 75 seconds. `ascertain worker` starts a worker."
    )
    await deployed.client.temporal.get_workflow_handle(task_id).terminate()


async def test_reconcile_has_the_outside_asked_now(deployed):
    waiting = await quarantined(deployed)
    before = len((await deployed.client.timeline(waiting)).entries)
    await deployed.cli("reconcile", waiting)

    async def asked():
        return len((await deployed.client.timeline(waiting)).entries) > before

    await wait_until(asked, what="another turn")


async def test_a_cancelled_task_ends_with_exit_code_8(deployed):
    task_id = deployed.new_id("cancelled")
    gate = deployed.task(task_id, partition="cancelled")
    await deployed.cli("pause", "cancelled", "--reason", "test")
    await deployed.client.submit(Task(**gate))
    await wait_until(lambda: held(deployed, task_id), what="a held task")
    answer = await deployed.cli("cancel", task_id, "--json")
    assert answer.document == {"task_id": task_id, "cancelling": True}
    ended = await deployed.cli("result", task_id, "--within", "100s", "--json", code=8)
    assert ended.document["error"]["code"] == "task_ended"
    assert deployed.outside.books.facts_of(deployed.effect_id(task_id)) == []


async def held(deployed, task_id: str) -> bool:
    opened = (await deployed.client.status(task_id)).open
    return opened is not None and opened.doing == "held"


async def test_of_an_effect_that_only_its_id_is_known_of_the_case_of_its_task_is_told(deployed):
    task_id = await quarantined(deployed)
    effect_id = deployed.effect_id(task_id)
    told = await deployed.cli("explain", effect_id)
    assert told.err == f"{effect_id} is an effect of task {task_id}:\n"
    assert told.out.startswith(f"Task {task_id} waits for a person to decide")
    shown = await deployed.cli("show", effect_id, "--json")
    assert shown.document["task_id"] == task_id
    unknown = await deployed.cli("explain", "ef1-never", code=5)
    assert unknown.sentence == "there is no task ef1-never"
