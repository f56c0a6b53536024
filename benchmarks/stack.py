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
from benchmarks.job import jobs
from benchmarks.peer import procrastinate, restate
from benchmarks.peer.dbos import launched
from benchmarks.plan import FLOOR, SERVED, Contender, Plan, Store
from benchmarks.work import Work
from starter.postgres import EmbeddedPostgres
from starter.temporal import TemporalServer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    import asyncpg

    from benchmarks.side import Side
    from starter.server import Server

_DBOS: Final = frozenset({Contender.DBOS, Contender.DBOS50})


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


@dataclass(frozen=True, slots=True)
class Served:
    """The worker process that single tasks and streams share, its ledger, and a client for both."""

    work: Work
    ledger: str
    client: TemporalClient


@asynccontextmanager
async def running(plan: Plan) -> AsyncGenerator[tuple[Stack, list[Side]]]:
    """Start everything that the plan's sides need; stop it at the end.

    Raises:
        SetupError: A server or a worker cannot run here; the message names its log.
    """
    with folder_of_run() as folder:
        async with AsyncExitStack() as closing:
            stack = await _servers(closing, folder, plan.store)
            peers = await _peers(closing, stack, plan)
            served = await _served(closing, stack) if SERVED & set(plan.contenders) else None
            yield (
                stack,
                [
                    peers.get(contender) or await _side(closing, stack, contender, served)
                    for contender in plan.contenders
                ],
            )


@contextmanager
def folder_of_run() -> Generator[Path]:
    """A folder that is gone afterwards."""
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


async def _side(
    closing: AsyncExitStack,
    stack: Stack,
    contender: Contender,
    served: Served | None,
) -> Side:
    if contender in FLOOR:
        return await _floor(closing, stack, contender)
    processes = {**_here(stack), Part.SERVER: Process(stack.temporal.pid)}
    if contender is Contender.BARE:
        return await _bare(closing, stack, processes)
    processes[Part.DATABASE] = Process(stack.postgres.pid)
    if contender is Contender.EAGER or served is None:
        ledger, client = await _ledger(stack, contender), await client_of(stack.temporal)
        in_process = eager(client, stack.folder, stack.outside.url, processes, ledger)
        return await closing.enter_async_context(in_process)
    processes[Part.WORKER] = served.work.process
    if contender is Contender.STREAM:
        return durable.streaming(served.client, processes, database=served.ledger)
    return durable.submitting(
        contender, served.client, names.TASK_QUEUE, processes, database=served.ledger
    )


async def _bare(closing: AsyncExitStack, stack: Stack, processes: dict[Part, Process]) -> Side:
    work = durable.start_bare(stack.folder, stack.temporal, stack.outside.url)
    await _ready(closing, work)
    plain = await TemporalClient.connect(stack.temporal.address, namespace=stack.temporal.namespace)
    return durable.bare(plain, work, processes)


async def _served(closing: AsyncExitStack, stack: Stack) -> Served:
    ledger = await _ledger(stack, Contender.ASCERTAIN)
    file = durable.deployment(stack.folder, stack.outside.url)
    work = durable.start_ascertain(stack.folder, stack.temporal, file, ledger)
    await _ready(closing, work)
    return Served(work, ledger, await client_of(stack.temporal))


async def _ledger(stack: Stack, contender: Contender) -> str:
    ledger = await stack.postgres.create_database(f"ledger_{contender}")
    await migrate(ledger)
    return ledger


async def client_of(temporal: TemporalServer) -> TemporalClient:
    """A client as the product's own."""
    return await TemporalClient.connect(
        temporal.address,
        namespace=temporal.namespace,
        data_converter=pydantic_data_converter,
        interceptors=[telemetry.interceptor()],
    )


async def _ready(closing: AsyncExitStack, work: Work) -> None:
    closing.push_async_callback(work.kill)
    await work.ready()


async def _floor(closing: AsyncExitStack, stack: Stack, contender: Contender) -> Side:
    wire = _wire(closing)
    if contender is Contender.CALL:
        return floor.bare_call(wire, stack.outside.url, _here(stack))
    pool, database = await _jobs(closing, stack, "jobs")
    processes = _beside_database(stack)
    return await floor.call_between_commits(wire, stack.outside.url, pool, database, processes)


async def _peers(closing: AsyncExitStack, stack: Stack, plan: Plan) -> dict[Contender, Side]:
    """The plan's peers, started."""
    found: dict[Contender, Side] = {}
    outside, processes = stack.outside.url, _beside_database(stack)
    if _DBOS & set(plan.contenders):
        pool, database = await _jobs(closing, stack, "dbos")
        serving = launched(_wire(closing), outside, pool, database)
        peer = await closing.enter_async_context(serving)
        found[Contender.DBOS] = peer.one_each(processes)
        found[Contender.DBOS50] = peer.in_chunks(processes)
    if Contender.PROCRASTINATE in plan.contenders:
        pool, database = await _jobs(closing, stack, "procrastinate")
        queued = procrastinate.queued(stack.folder, outside, pool, database, processes)
        found[Contender.PROCRASTINATE] = await closing.enter_async_context(queued)
    if Contender.RESTATE in plan.contenders:
        invoked = restate.invoked(stack.folder, _wire(closing), outside, _here(stack))
        found[Contender.RESTATE] = await closing.enter_async_context(invoked)
    return found


def _wire(closing: AsyncExitStack) -> Wire:
    wire = Wire()
    closing.push_async_callback(wire.aclose)
    return wire


async def _jobs(
    closing: AsyncExitStack, stack: Stack, name: str
) -> tuple[asyncpg.Pool[asyncpg.Record], str]:
    """A database for a table of claims, and connections to it."""
    database = await stack.postgres.create_database(name)
    return await closing.enter_async_context(jobs(database)), database


def _beside_database(stack: Stack) -> dict[Part, Process]:
    return {**_here(stack), Part.DATABASE: Process(stack.postgres.pid)}


def _here(stack: Stack) -> dict[Part, Process]:
    return {
        Part.CLIENT: Process(os.getpid(), with_children=False),
        Part.OUTSIDE: Process(stack.outside.pid),
    }
