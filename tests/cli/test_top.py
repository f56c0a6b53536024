from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
from html.parser import HTMLParser

from ascertain.contracts.task import Task
from starter.process import free_port
from tests.cli.conftest import PROGRAM
from tests.cli.test_tasks import quarantined
from tests.waiting import wait_until


async def test_the_board_shows_gates_states_ages_and_rates_of_every_partition(deployed):
    task_id = await quarantined(deployed, partition="top-a")
    await deployed.cli("pause", "top-b", "--reason", "an incident")
    held = deployed.new_id("held")
    await deployed.client.submit(Task(**deployed.task(held, partition="top-b")))
    try:

        async def counted():
            board = (await deployed.cli("top", "--once", "--json")).document
            known = {line["partition"]: line for line in board["partitions"]}
            shown = known["top-b"]["held"] == 1 and board["tasks"]["started_per_minute"] >= 1
            return (board, known) if shown else None

        board, known = await wait_until(counted, 60, what="tasks that were started just now")
        assert known["top-a"]["held"] == 0
        table = (await deployed.cli("top", "top-b", "--once")).out
        assert re.search(r"partition\s+gate\s+held", table)
        assert re.search(r"top-b\s+paused\s+1\s", table)
        assert known["top-a"]["unresolved"]["QUARANTINED"] == 1
        assert known["top-a"]["oldest_seconds"] >= 0
        assert known["top-b"]["paused"] is True
        assert board["tasks"]["running"] >= 1
        assert board["complete"] is True
        told = (await deployed.cli("top", "top-a", "--once")).out
        assert re.search(rf"{task_id}\s+note\s+QUARANTINED\s+\d+ second", told)
        assert "1 effect with a person" in told
        assert "top-b" not in told
    finally:
        await deployed.cli("resume", "top-b")


async def test_the_board_without_a_server_shows_the_ledger_and_says_what_it_could_not_ask(deployed):
    away = f"127.0.0.1:{free_port()}"
    answer = await deployed.cli("top", "--once", "--json", TEMPORAL_ADDRESS=away)
    assert answer.document["tasks"] is None
    assert {line["held"] for line in answer.document["partitions"]} <= {None}
    assert f"no Temporal server answers at {away}" in answer.document["not_asked"][0]
    answer = await deployed.cli("top", "a' OR '1'='1", "--once", code=2)
    assert "cannot be the name of a partition" in answer.sentence


async def test_elsewhere_than_at_a_terminal_it_prints_one_document_after_the_other(deployed):
    watching = await deployed.cli.start("top", "--every", "0.2", "--json")
    lines = [json.loads(await watching.stdout.readline()) for _ in range(2)]
    watching.send_signal(signal.SIGINT)
    await watching.communicate()
    assert lines[0]["at"] < lines[1]["at"]
    assert watching.returncode == 130


async def test_a_partition_of_which_no_task_is_known_is_said_to_be_unknown_wherever_it_is_shown(
    deployed,
):
    await quarantined(deployed, partition="shown")
    shows = (("top", "{}", "--once"), ("list", "--partition", "{}"))
    for command in (*shows, ("list", "--quarantined", "--partition", "{}", "--json")):
        meant, slip = ([part.format(name) for part in command] for name in ("shown", "shwon"))
        assert (await deployed.cli(*meant)).err == ""
        told = (await deployed.cli(*slip)).err
        assert told.startswith("No task of partition shwon is known; known: ")
        assert "shown" in told


async def test_a_partition_whose_tasks_are_all_done_is_among_those_that_are_known(deployed):
    partition, task_id = deployed.new_id("finished"), deployed.new_id()
    await deployed.cli(
        "submit", deployed.file(deployed.task(task_id, partition=partition)), "--wait"
    )

    async def told():  # a search lags
        answer = await deployed.cli("list", "--partition", partition.replace("sh", "hs"))
        return partition in answer.err

    await wait_until(told, what="a partition that is known")


async def test_a_kind_of_which_no_task_is_known_is_said_to_be_unknown_and_to_be_one_of_effects(
    deployed,
):
    await quarantined(deployed, partition="kinds")
    for command in (("list",), ("list", "--quarantined"), ("list", "--quarantined", "--json")):
        assert "No task of kind" not in (await deployed.cli(*command, "--kind", "greeting")).err
        told = (await deployed.cli(*command, "--kind", "note.blind")).err
        assert told.startswith("No task of kind note.blind, which is a kind of effect, is known; ")
        assert "greeting" in told
        told = (await deployed.cli(*command, "--kind", "greetign")).err
        assert told.startswith("No task of kind greetign is known; known: ")


async def test_at_a_terminal_it_stays_on_the_screen_and_leaves_it_as_it_was(deployed):
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(PROGRAM, "top", "--every", "0.2"),
        stdin=theirs,
        stdout=theirs,
        stderr=asyncio.subprocess.PIPE,
        env=deployed.cli.environment | {"TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    while b"partition" not in shown:
        shown += await asyncio.to_thread(os.read, ours, 4096)
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == 130, err
    while b"\x1b[?1049l" not in shown:
        shown += await asyncio.to_thread(os.read, ours, 4096)
    os.close(ours)
    assert b"\x1b[?1049h" in shown


class Page(HTMLParser):
    """The text of a page, and what it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.loads: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.loads += [value for name, value in attrs if name in {"src", "href"} or tag == "script"]

    def handle_data(self, data):
        self.text += data


async def test_a_case_file_holds_timeline_evidence_and_decisions_and_nothing_from_elsewhere(
    deployed, tmp_path
):
    task_id = await quarantined(deployed)
    given = ("--reason", "<b>seen</b> & counted", "--external-id", f"f-{task_id}", "--yes")
    await deployed.cli("takeover", task_id, "confirm", "--operator", "grace", *given)
    await deployed.cli("result", task_id, "--within", "100s")
    out = tmp_path / "case.html"
    said = await deployed.cli("report", task_id, "--out", str(out))
    assert said.out == f"The case file of task {task_id} is {out}.\n"
    page = Page()
    page.feed(out.read_text())
    assert page.loads == []
    assert f"Task {task_id} is done" in page.text
    for told in (
        "claim",
        "doubt",
        "quarantine",
        "grace",
        "<b>seen</b> & counted",
        "confirm of step",
    ):
        assert told in page.text
    assert '"rule": "no_lookup"' in page.text
    assert "<b>" not in out.read_text()
    refused = await deployed.cli("report", task_id, "--out", str(out), code=2)
    assert f"{out} is there already: name another FILE, or say --force" in refused.sentence
    await deployed.cli("report", task_id, "--out", str(out), "--force")
    printed = await deployed.cli("report", task_id)
    assert printed.out.startswith("<!doctype html>")
    document = (await deployed.cli("report", task_id, "--json")).document
    assert document["html"].startswith("<!doctype html>")
    await deployed.cli("report", "nowhere", code=5)
