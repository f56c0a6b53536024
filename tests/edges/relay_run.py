"""The big run: ``python -m tests.edges.relay_run [ROWS] [KILLS]``, with two relays and servers of its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from time import monotonic

import asyncpg
from temporalio.client import Client as TemporalClient

from ascertain.ledger.migration import Schema, migrate
from ascertain.service.queue import Queue
from starter.postgres import EmbeddedPostgres
from starter.temporal import TemporalServer


async def main(directory: Path, rows: int, kills: int) -> None:
    try:
        async with (
            EmbeddedPostgres(directory / "postgres") as postgres,
            TemporalServer(directory / "temporal", in_memory=True) as temporal,
        ):
            await run(postgres.url, temporal, rows, kills)
    finally:
        shutil.rmtree(directory)


async def run(url: str, temporal: TemporalServer, rows: int, kills: int) -> None:
    await migrate(url, schema=Schema.SERVICE)
    connection = await asyncpg.connect(url)
    await connection.executemany(
        "insert into ascertain.outbox_entries (task_id, content) values ($1, $2)",
        [(f"big-{n}", json.dumps(task(n))) for n in range(rows)],
    )
    queue = await Queue.open(url)
    began = monotonic()
    relays = [await relay(url, temporal) for _ in range(2)]
    for kill in range(kills):
        while await queue.count_started() < rows * (kill + 1) // (kills + 1):
            await asyncio.sleep(0.05)
        victim = kill % 2
        relays[victim].kill()
        await relays[victim].wait()
        relays[victim] = await relay(url, temporal)
    while await queue.count_started() < rows:
        await asyncio.sleep(0.05)

    took = monotonic() - began
    for process in relays:
        process.terminate()
        await process.wait()
    client = await TemporalClient.connect(temporal.address, namespace=temporal.namespace)
    while (found := await client.count_workflows("WorkflowType = 'Task'")).count < rows:
        await asyncio.sleep(0.5)  # visibility lags
    entries = await connection.fetchrow(
        "select count(*) as rows, count(distinct run_id) as runs, count(*) filter (where takes > 1) "
        "as taken_again, max(takes) as most_takes from ascertain.outbox_entries"
    )
    sys.stdout.write(
        f"{rows} rows, two relays, {kills} kills, {took:.0f} s\n"
        f"tasks in Temporal: {found.count}\n"
        f"outbox: {dict(entries)}; {await queue.lag()}\n"
    )
    await queue.aclose()
    await connection.close()


def task(number: int) -> dict:
    step = {"name": "note", "kind": "note.create", "input": {"n": number}}
    return {"task_id": f"big-{number}", "kind": "greeting", "steps": [step]}


async def relay(url: str, temporal: TemporalServer) -> asyncio.subprocess.Process:
    environment = {
        "ASCERTAIN_OUTBOX_URL": url,
        "TEMPORAL_ADDRESS": temporal.address,
        "TEMPORAL_NAMESPACE": temporal.namespace,
    }
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ascertain", "relay", "--lease", "10", "--json"),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.DEVNULL,
    )


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    place = Path(tempfile.mkdtemp(prefix="ascertain-relay-run-"))
    place.chmod(0o711)
    asyncio.run(main(place, *(given + [10_000, 10][len(given) :])))
