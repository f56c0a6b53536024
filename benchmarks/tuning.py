"""The same job with one thing set otherwise, against the worker as it is, batch by batch in turns."""

from __future__ import annotations

import asyncio
import itertools
import os
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from ascertain.ledger.migration import migrate
from benchmarks import durable, machine
from benchmarks.answering import AnsweringServer
from benchmarks.cpu import Part, Process
from benchmarks.lever import AS_IT_IS, LEVERS
from benchmarks.measure import Batch, batch, run_tasks
from benchmarks.plan import Contender, Load
from benchmarks.stack import client_of
from benchmarks.summary import Spread, ratios
from benchmarks.tuned_server import TunedServer
from starter.postgres import EmbeddedPostgres
from starter.temporal import TemporalServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.lever import Lever
    from benchmarks.side import Side

_SETTLE_S: Final = 0.3
_WARM: Final = 30


@dataclass(frozen=True, slots=True)
class Tuning:
    """One run.

    Attributes:
        levers: What is set otherwise, one at a time.
        loads: Of single tasks; a stream of as many effects as the last one has tasks, times its scale, is
            measured beside them.
    """

    levers: tuple[str, ...] = tuple(name for name in LEVERS if name != AS_IT_IS)
    rounds: int = 10
    loads: tuple[Load, ...] = (Load(10, 50), Load(100, 100))

    @property
    def command(self) -> str:
        """The command that runs it."""
        words = ["./run bench tuning", f"--rounds {self.rounds}"]
        words += [f"--load {load.in_flight}:{load.tasks}" for load in self.loads]
        if self.levers != Tuning().levers:
            words += [f"--lever {name!r}" for name in self.levers]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class _Stack:
    """What all share; a lever of the server has a Temporal server of its own."""

    folder: Path
    temporal: TemporalServer
    postgres: EmbeddedPostgres
    outside: AnsweringServer
    ledger: str
    closing: AsyncExitStack


async def measure(folder: Path, tuning: Tuning, tell: Callable[[str], None]) -> dict[str, Any]:
    """Run every lever and the worker as it is in turns, and give the ratios.

    Args:
        folder: For the servers' data.
        tuning: What to run.
        tell: Is told what comes next.
    """
    before = machine.load_average()
    numbers = itertools.count(1)
    found: dict[tuple[str, str], list[Batch]] = {}
    async with AsyncExitStack() as closing:
        stack = await _stack(closing, folder)
        names = (AS_IT_IS, *tuning.levers)
        started = await asyncio.gather(*(_sides(stack, name) for name in names))
        sides = dict(zip(names, started, strict=True))
        for single, stream in sides.values():
            await run_tasks(single, _WARM, numbers, in_flight=10)
            await run_tasks(stream, _WARM, numbers)
        for turn in range(1, tuning.rounds + 1):
            for name, (single, stream) in sides.items():
                tell(f"round {turn} of {tuning.rounds}: {name}")
                for load in tuning.loads:
                    done = await batch(single, load, numbers, settle_s=_SETTLE_S)
                    found.setdefault((name, load.name), []).append(done)
                done = await batch(stream, tuning.loads[-1], numbers, settle_s=_SETTLE_S)
                found.setdefault((name, "stream"), []).append(done)
    return {
        "command": tuning.command,
        **machine.circumstances(before),
        "tuning": {name: _figures(found, name) for name in tuning.levers},
        "aims": {},
    }


def _figures(found: Mapping[tuple[str, str], Sequence[Batch]], name: str) -> dict[str, Any]:
    """By load: the lever over the worker as it is, within each round."""
    return {
        load: {
            "worker_cpu": asdict(_worker(batches, found[AS_IT_IS, load])),
            **asdict(ratios(batches, found[AS_IT_IS, load])),
        }
        for (lever, load), batches in found.items()
        if lever == name
    }


def _worker(ours: Sequence[Batch], theirs: Sequence[Batch]) -> Spread:
    return Spread.of(
        our.cpu_s[Part.WORKER] / their.cpu_s[Part.WORKER]
        for our, their in zip(ours, theirs, strict=True)
    )


async def _stack(closing: AsyncExitStack, folder: Path) -> _Stack:
    temporal = TemporalServer(folder / "temporal", in_memory=True)
    postgres = EmbeddedPostgres(folder / "postgres")
    outside = AnsweringServer(folder / "outside")
    for server in (temporal, postgres, outside):
        closing.push_async_callback(server.stop)
    await asyncio.gather(*(server.start() for server in (temporal, postgres, outside)))
    ledger = await postgres.create_database("ledger")
    await migrate(ledger)
    return _Stack(folder, temporal, postgres, outside, ledger, closing)


async def _sides(stack: _Stack, name: str) -> tuple[Side, Side]:
    """Single tasks and streams on a worker, and where it is a lever of the server a server, of its own."""
    lever = LEVERS[name]
    queue = f"tuning-{list(LEVERS).index(name)}"
    temporal = await _server(stack, lever, queue)
    file = durable.deployment(stack.folder, stack.outside.url, queue, lever.wire)
    work = durable.start_tuned(stack.folder, temporal, file, stack.ledger, name)
    stack.closing.push_async_callback(work.kill)
    await work.ready()
    processes = {
        Part.CLIENT: Process(os.getpid(), with_children=False),
        Part.WORKER: work.process,
        Part.SERVER: Process(temporal.pid),
        Part.DATABASE: Process(stack.postgres.pid),
        Part.OUTSIDE: Process(stack.outside.pid),
    }
    client = await client_of(temporal)
    return (
        durable.submitting(Contender.ASCERTAIN, client, queue, processes, database=stack.ledger),
        durable.streaming(client, processes, database=stack.ledger, task_queue=queue),
    )


async def _server(stack: _Stack, lever: Lever, name: str) -> TemporalServer:
    if not lever.server:
        return stack.temporal
    server = TunedServer(stack.folder / name, lever.server)
    stack.closing.push_async_callback(server.stop)
    await server.start()
    return server
