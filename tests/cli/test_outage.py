from __future__ import annotations

import asyncio
import json

import pytest

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
