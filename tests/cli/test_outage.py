from __future__ import annotations

import asyncio
import json

import pytest
from temporalio.service import RPCError, RPCStatusCode

from ascertain.connection import answered
from ascertain.contracts import names
from ascertain.errors import TemporalDown
from starter.process import free_port
from starter.temporal import TemporalServer
from tests.cli.conftest import Cli

STEP = {"name": "note", "kind": "note.create", "input": {}}


def line(task_id: str) -> bytes:
    return json.dumps({"task_id": task_id, "kind": "greeting", "steps": [STEP]}).encode() + b"\n"


@pytest.fixture
async def server(server_directory):
    """A server of the test's own, to be killed."""
    async with TemporalServer(server_directory, port=free_port()) as started:
        yield started


@pytest.fixture
def there(cli, server) -> Cli:
    return Cli({**cli.environment, "TEMPORAL_ADDRESS": server.address}, cli.folder)


async def stream(there: Cli, patience: str) -> asyncio.subprocess.Process:
    """A stream that has submitted its first line."""
    process = await there.start(
        "submit", "-", "--jsonl", "--json", "--patience", patience, "--concurrency", "2"
    )
    process.stdin.write(line("a"))
    assert json.loads(await process.stdout.readline())["fate"] == "started"
    return process


async def test_a_server_that_comes_back_in_time_is_waited_for(there, server):
    process = await stream(there, "300s")
    await server.kill()
    process.stdin.write(line("b") + line("c") + line("d"))
    process.stdin.close()
    # Said once the client's own tries are over, which alone would not be patience.
    async with asyncio.timeout(120):
        assert b"waiting for the server: could not start task" in await process.stderr.readline()
    await server.start()
    out, err = await process.communicate()
    *told, last = map(json.loads, out.splitlines())
    assert {outcome["task_id"] for outcome in told} == {"b", "c", "d"}
    assert last["summary"]["unanswered"] == 0
    # A start whose answer was lost with the server is met again as a duplicate: started once.
    assert last["summary"]["started"] + last["summary"]["duplicate"] == 4
    assert process.returncode == 0, err


async def test_a_server_that_stays_away_ends_the_stream_and_nothing_is_lost(there, server):
    process = await stream(there, "200ms")
    await server.kill()
    rest = [line(name) for name in "bcdefgh"]
    process.stdin.write(b"".join(rest))
    out, err = await process.communicate()
    *told, last = map(json.loads, out.splitlines())
    assert process.returncode == 6
    assert {outcome["fate"] for outcome in told} == {"unanswered"}
    assert 0 < last["summary"]["unanswered"] < len(rest)
    assert b"The server did not answer, so the rest was not submitted. Run the same again" in err
    assert b"Traceback" not in err
    await server.start()
    again = await there("submit", "-", "--json", stdin=line("a") + b"".join(rest))
    *told, last = map(json.loads, again.out.splitlines())
    fates = {outcome["task_id"]: outcome["fate"] for outcome in told}
    assert fates.pop("a") == "duplicate"
    assert set(fates) == set("bcdefgh")
    assert set(fates.values()) <= {"started", "duplicate"}


async def test_a_server_that_hangs_does_not_hang_the_command(there, server):
    await server.pause()
    try:
        answer = await there("list", "--json", code=6)
        assert answer.document["error"]["code"] == "temporal_down"
    finally:
        server.resume()


# Of each command what is asked of Temporal alone, and that no ledger could tell.
OF_TEMPORAL = (
    "show t",
    "explain t",
    "result t",
    "wait t",
    "takeover t take --reason x --yes",
    "takeover t take --reason x --version 2",
    "reconcile t",
    "cancel t",
    "list",
    "replay status r",
    "replay pause r --reason x",
    "incident status p",
    "incident close p --reason x",
    "stream status s",
    "stream pause s --reason x",
)


@pytest.mark.parametrize("command", OF_TEMPORAL)
async def test_a_namespace_that_is_not_there_is_told_as_that_and_not_as_a_missing_task(
    deployed, command
):
    answer = await deployed.cli(*command.split(), code=7, TEMPORAL_NAMESPACE="nope")
    assert "the Temporal server has no namespace nope" in answer.err
    assert "there is no" not in answer.err


async def test_a_task_that_is_looked_for_in_no_namespace_is_told_from_the_ledger_alone(deployed):
    task_id = deployed.new_id()
    await deployed.cli("submit", deployed.file(deployed.task(task_id)), "--wait")
    answer = await deployed.cli("show", task_id, code=7, TEMPORAL_NAMESPACE="nope")
    assert "the Temporal server has no namespace nope" in answer.out
    assert deployed.effect_id(task_id) in answer.out
    assert "submit FILE" not in answer.out


async def test_a_gate_is_told_as_open_where_its_tasks_are_looked_for_in_no_namespace(deployed):
    partition = deployed.new_id("gate")
    await deployed.cli("pause", partition, "--reason", "x")
    answer = await deployed.cli("resume", partition, TEMPORAL_NAMESPACE="nope")
    assert f"Partition {partition} is open" in answer.out
    assert (
        "Held tasks were not woken (could not list tasks: the Temporal server has no" in answer.err
    )


async def test_a_task_that_no_worker_answers_for_is_not_shown_as_the_whole_case(deployed):
    task_id = deployed.new_id("unserved")
    handle = await deployed.client.temporal.start_workflow(
        names.TASK_WORKFLOW, deployed.task(task_id), id=task_id, task_queue="nobody"
    )
    answer = await deployed.cli("show", task_id, code=6)
    assert "No worker answered for the task: nobody did within 5 s" in answer.out
    assert "That is not the whole case" in answer.out
    assert "  ascertain worker\n" in answer.out
    await handle.terminate()


def test_a_query_that_no_worker_can_take_is_told_with_how_one_is_started():
    told = "no poller seen for task queue recently, worker may be down"
    with (
        pytest.raises(TemporalDown, match=r"could not ask r-1: no worker .* `ascertain worker`"),
        answered("ask r-1"),
    ):
        raise RPCError(told, RPCStatusCode.FAILED_PRECONDITION, b"")
