"""Relays that are really killed: each task is started once, and none is forgotten."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from starter.relay import Pace, Relay
from tests.edges.struck_relay import POINTS
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
# All of it: ASCERTAIN_ROWS=10000 ./run test -s tests/edges/test_relay_kills.py -k again_and_again
ROWS = int(os.environ.get("ASCERTAIN_ROWS", "200"))
KILLS = 10 if ROWS > 1000 else 4
PATIENCE_S = 60 + ROWS / 8
BATCH = 10


@pytest.fixture
async def relays(service, temporal):
    """Starts relays as processes; none outlives the test."""
    running = []

    async def start(point: str = "", batch: int = BATCH) -> asyncio.subprocess.Process:
        environment = {
            "ASCERTAIN_OUTBOX_URL": service.url,
            "TASK_QUEUE": service.name,
            "TEMPORAL_ADDRESS": temporal.address,
            "TEMPORAL_NAMESPACE": temporal.namespace,
            "POINT": point,
            "BATCH": str(batch),
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.edges.struck_relay"),
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def put(service, many):
    await service.connection.executemany(
        "insert into ascertain.outbox_entries (task_id, content) values ($1, $2)",
        [(str(n), _json(service.task(str(n)))) for n in range(many)],
    )


def _json(task):
    import json

    return json.dumps(task)


async def all_started(service, queue, many):
    lag = await queue.lag()
    return lag.waiting == 0 and await queue.count_started() == many


@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_every_point_it_starts_each_task_once(point, service, queue, relays):
    await put(service, 6)
    await service.put_raw("poison", {"no": "task"})
    process = await relays(point)
    assert await asyncio.wait_for(process.wait(), 100) == -signal.SIGKILL
    # What it had in hand is free after its lease; nobody else has been there.
    relay = Relay(queue, service.client, Pace())

    async def done():
        await relay.drain()
        return await all_started(service, queue, 6)

    await wait_until(done, what="the rest of the tasks")
    assert len(await queue.aside(10)) == 1
    runs = {entry["run_id"] for entry in await service.entries()} - {None}
    assert len(runs) == 6
    await wait_until(lambda: _named(service, 6), what="the tasks in Temporal")


async def _named(service, many):
    return await service.started() == {str(n) for n in range(many)}


@pytest.mark.timeout(120 + ROWS // 4)
async def test_two_relays_that_are_killed_again_and_again_start_every_task_once(
    service, queue, relays
):
    await put(service, ROWS)
    # One dies with entries in hand in any case; of those after it chance decides.
    first = await relays("after_take")
    assert await asyncio.wait_for(first.wait(), 100) == -signal.SIGKILL
    two = [await relays() for _ in range(2)]
    for number in range(KILLS):
        enough = ROWS * (number + 1) // (2 * KILLS)

        async def further(enough=enough):
            return await queue.count_started() >= enough

        await wait_until(further, PATIENCE_S, what="relays that get on")
        two[number % 2].kill()
        await two[number % 2].wait()
        two[number % 2] = await relays()
    await wait_until(lambda: all_started(service, queue, ROWS), PATIENCE_S, what="every task")
    entries = await service.entries()
    assert len({entry["run_id"] for entry in entries}) == ROWS
    taken_again = sum(entry["takes"] > 1 for entry in entries)
    assert taken_again >= BATCH
    await wait_until(lambda: _named(service, ROWS), PATIENCE_S, what="the tasks in Temporal")
    most = max(entry["takes"] for entry in entries)
    told = f"{ROWS} rows, {KILLS} kills, {taken_again} taken again, at most {most} times"
    sys.stdout.write(f"{told}; {len(await service.started())} tasks in Temporal\n")
