"""The servers and workers of one run, in a folder of their own."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import asyncpg
from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter

from ascertain import telemetry
from ascertain.adapters.wire import Wire
from ascertain.contracts import names
from ascertain.ledger.migration import migrate
from benchmarks import durable, floor
from benchmarks.answering import AnsweringServer
from benchmarks.cpu import Part, Process
from benchmarks.eager import eager
from benchmarks.plan import FLOOR, Contender, Plan, Store
from benchmarks.work import Work
from starter.postgres import EmbeddedPostgres
from starter.temporal import TemporalServer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from benchmarks.side import Side
    from starter.server import Server

_JOBS: Final = "jobs"
# As many as a worker's ledger has.
_CONNECTIONS: Final = 8


@dataclass(frozen=True, slots=True)
class Stack:
    """What runs.

    Attributes:
        postgres: Holds the ledger, and the floor's table in a database of its own.
        folder: Logs and data.
    """

    temporal: TemporalServer
    postgres: EmbeddedPostgres
    outside: AnsweringServer
    folder: Path


@asynccontextmanager
async def running(plan: Plan) -> AsyncGenerator[tuple[Stack, list[Side]]]:
    """Start everything that the plan's sides need; stop it at the end.

    Raises:
        SetupError: A server or a worker cannot run here; the message names its log.
    """
    with _folder() as folder:
        async with AsyncExitStack() as closing:
            stack = await _servers(closing, folder, plan.store)
            sides = [await _side(closing, stack, contender) for contender in plan.contenders]
            yield stack, sides


@contextmanager
def _folder() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ascertain-bench-"))
    folder.chmod(0o711)  # as root, PostgreSQL runs as somebody else and must get to its data
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _servers(closing: AsyncExitStack, folder: Path, store: Store) -> Stack:
    stack = Stack(
        TemporalServer(folder / "temporal", in_memory=store is Store.MEMORY),
        EmbeddedPostgres(folder / "postgres"),
        AnsweringServer(folder / "outside"),
        folder,
    )
    servers: tuple[Server, ...] = (stack.temporal, stack.postgres, stack.outside)
    for server in servers:
        closing.push_async_callback(server.stop)
    await asyncio.gather(*(server.start() for server in servers))
    return stack


async def _side(closing: AsyncExitStack, stack: Stack, contender: Contender) -> Side:
    if contender in FLOOR:
        return await _floor(closing, stack, contender)
    processes = {
        Part.CLIENT: Process(os.getpid(), with_children=False),
        Part.SERVER: Process(stack.temporal.pid),
        Part.OUTSIDE: Process(stack.outside.pid),
    }
    if contender is Contender.BARE:
        work = durable.start_bare(stack.folder, stack.temporal, stack.outside.url)
        await _ready(closing, work)
        plain = await TemporalClient.connect(
            stack.temporal.address, namespace=stack.temporal.namespace
        )
        return durable.bare(plain, work, processes)
    return await _ours(closing, stack, contender, processes)


async def _ours(
    closing: AsyncExitStack, stack: Stack, contender: Contender, processes: dict[Part, Process]
) -> Side:
    ledger = await stack.postgres.create_database(f"ledger_{contender}")
    await migrate(ledger)
    processes[Part.DATABASE] = Process(stack.postgres.pid)
    client = await TemporalClient.connect(
        stack.temporal.address,
        namespace=stack.temporal.namespace,
        data_converter=pydantic_data_converter,
        interceptors=[telemetry.interceptor()],
    )
    if contender is Contender.EAGER:
        served = eager(client, stack.folder, stack.outside.url, processes, ledger)
        return await closing.enter_async_context(served)
    work = durable.start_ascertain(stack.folder, stack.temporal, stack.outside.url, ledger)
    await _ready(closing, work)
    processes[Part.WORKER] = work.process
    return durable.submitting(contender, client, names.TASK_QUEUE, processes, database=ledger)


async def _ready(closing: AsyncExitStack, work: Work) -> None:
    closing.push_async_callback(work.kill)
    await work.ready()


async def _floor(closing: AsyncExitStack, stack: Stack, contender: Contender) -> Side:
    wire = Wire()
    closing.push_async_callback(wire.aclose)
    processes = {
        Part.CLIENT: Process(os.getpid(), with_children=False),
        Part.OUTSIDE: Process(stack.outside.pid),
    }
    if contender is Contender.CALL:
        return floor.bare_call(wire, stack.outside.url, processes)
    database = await stack.postgres.create_database(_JOBS)
    pool = await closing.enter_async_context(
        asyncpg.create_pool(
            database, min_size=1, max_size=_CONNECTIONS, ssl=False, reset=_leave_as_is
        )
    )
    processes[Part.DATABASE] = Process(stack.postgres.pid)
    return await floor.call_between_commits(wire, stack.outside.url, pool, database, processes)


async def _leave_as_is(_: asyncpg.Connection[asyncpg.Record]) -> None:
    """As the ledger's sessions: asyncpg's own reset would be one more statement after each."""
