"""What open tasks hold in memory: of the worker, of the Temporal server and of the database."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter

from ascertain.client import Client
from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.contracts.gate import GateChange
from ascertain.contracts.task import Step, Task
from ascertain.ledger.migration import migrate
from ascertain.ledger.postgres import open_ledger
from ascertain.testing.knob import Drop, Knobs, SubmitKnobs
from ascertain.testing.outside import Outside
from benchmarks import durable, machine
from benchmarks.bare.waiting import EVENTS, WAITING
from benchmarks.bare.workflow import TASK_QUEUE
from benchmarks.cpu import Part, Process
from benchmarks.plan import Store
from benchmarks.resident import resident
from benchmarks.side import one_by_one
from drill.kind import options
from drill.toml import toml
from starter.postgres import EmbeddedPostgres
from starter.temporal import TemporalServer
from starter.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from temporalio.client import WorkflowHandle

    from benchmarks.work import Work

_WITHIN: Final = timedelta(minutes=10)
_DAY_S: Final = 86_400
# The first ones load what is loaded once; they stay open and are not counted.
_FIRST: Final = 20
# So many at a time, so that none waits long for its first workflow task.
_PIECE: Final = 200
_IN_FLIGHT: Final = 10
_KIND: Final = "fact.create"
_HELD: Final = "HELD"


class Case(StrEnum):
    """Why tasks stay open."""

    HELD = "held in a paused partition"
    UNKNOWN = "UNKNOWN, asked tomorrow"
    BARE = "plain Temporal, waiting on a timer"


@dataclass(frozen=True, slots=True)
class _Scene:
    """What runs for one case.

    Attributes:
        begin: Start a task of this id.
        waiting: Return once tasks of these ids, and all before them, wait.
    """

    processes: Mapping[Part, Process]
    begin: Callable[[str], Awaitable[None]]
    waiting: Callable[[Sequence[str]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class OpenTasks:
    """One run.

    Attributes:
        tasks: Are open at a time.
        settle_s: How long after the last one began to wait memory is read, in seconds: servers give back, or
            collect, some of what they used on the way.
    """

    store: Store = Store.FILE
    tasks: int = 10_000
    settle_s: float = 5

    @property
    def command(self) -> str:
        """The command that runs it."""
        words = (f"--server {self.store}", f"--tasks {self.tasks}", f"--settle {self.settle_s:g}")
        return " ".join(("./run bench memory", *words))


async def measure(folder: Path, wanted: OpenTasks, tell: Callable[[str], None]) -> dict[str, Any]:
    """Leave tasks open in each way, and give the result.

    Args:
        folder: For the servers' data.
        wanted: How many, and where.
        tell: Is told what comes next.
    """
    load_before = machine.load_average()
    found = {case: await _of_case(folder, wanted, case, tell) for case in Case}
    return {
        "command": wanted.command,
        **machine.circumstances(load_before),
        "tasks": wanted.tasks,
        "memory": found,
        "aims": {},
    }


async def _of_case(
    folder: Path, wanted: OpenTasks, case: Case, tell: Callable[[str], None]
) -> dict[Part, dict[str, int]]:
    tasks = wanted.tasks

    async def told(scene: _Scene) -> dict[Part, int]:
        await asyncio.sleep(wanted.settle_s)
        return {part: resident(process) for part, process in scene.processes.items()}

    async with AsyncExitStack() as closing:
        tell(f"{case}: starting the servers")
        scene = await _scene(closing, _folder(folder, case), wanted.store, case)
        await _open(scene, "first", _FIRST, lambda _: None)
        before = await told(scene)
        await _open(scene, "task", tasks, lambda done: tell(f"{case}: {done:,} of {tasks:,}"))
        after = await told(scene)
    return {
        part: {
            "before": before[part],
            "after": after[part],
            "per_task": round((after[part] - before[part]) / tasks),
        }
        for part in before
    }


async def _open(scene: _Scene, name: str, tasks: int, tell: Callable[[int], None]) -> None:
    carry = one_by_one(scene.begin)
    for first in range(0, tasks, _PIECE):
        last = min(first + _PIECE, tasks)
        piece = [f"{name}-{number}" for number in range(first, last)]
        await carry(piece, _IN_FLIGHT)
        await scene.waiting(piece)
        tell(last)


async def _scene(closing: AsyncExitStack, folder: Path, store: Store, case: Case) -> _Scene:
    temporal = TemporalServer(folder / "temporal", in_memory=store is Store.MEMORY)
    lost = SubmitKnobs(commit="never", reply=Drop(how="reset"))
    outside = await closing.enter_async_context(Outside(Knobs(submit=lost)))
    await closing.enter_async_context(temporal)
    if case is Case.BARE:
        return await _bare(closing, folder, temporal, outside.url)
    return await _ours(closing, folder, temporal, outside.url, case)


def _folder(folder: Path, case: Case) -> Path:
    made = folder / case.name.lower()
    made.mkdir(mode=0o711)  # as root, PostgreSQL runs as somebody else and must get to its data
    return made


async def _bare(
    closing: AsyncExitStack, folder: Path, temporal: TemporalServer, outside: str
) -> _Scene:
    work = durable.start_bare(folder, temporal, outside)
    client = await TemporalClient.connect(temporal.address, namespace=temporal.namespace)
    await _ready(closing, work)

    async def begin(task_id: str) -> None:
        await client.start_workflow(WAITING, 1, id=task_id, task_queue=TASK_QUEUE)

    async def waiting(task_ids: Sequence[str]) -> None:
        for task_id in task_ids:
            handle = client.get_workflow_handle(task_id)

            async def waits(handle: WorkflowHandle[Any, Any] = handle) -> bool:
                return (await handle.describe()).history_length >= EVENTS

            await until(waits, _WITHIN, f"{task_id} did not begin to wait")

    return _Scene(_processes(temporal, work), begin, waiting)


async def _ours(
    closing: AsyncExitStack, folder: Path, temporal: TemporalServer, outside: str, case: Case
) -> _Scene:
    postgres = await closing.enter_async_context(EmbeddedPostgres(folder / "postgres"))
    database = await postgres.create_database("ledger")
    await migrate(database)
    if case is Case.HELD:
        await _pause(database)
    file = folder / "ascertain.toml"
    file.write_text(toml(_deployment(outside)), "utf-8")
    work = durable.start_ascertain(folder, temporal, file, database)
    await _ready(closing, work)
    client = Client(
        await TemporalClient.connect(
            temporal.address, namespace=temporal.namespace, data_converter=pydantic_data_converter
        )
    )
    state = _HELD if case is Case.HELD else State.UNKNOWN
    opened = 0

    async def begin(task_id: str) -> None:
        step = Step(name="create", kind=_KIND, input={"amount": 1})
        await client.submit(Task(task_id=task_id, kind="benchmark", steps=(step,)))

    async def waiting(task_ids: Sequence[str]) -> None:
        nonlocal opened
        opened += len(task_ids)

        async def all_wait() -> bool:
            return await client.count(f"{names.TASK_STATE} = '{state}'") == opened

        await until(all_wait, _WITHIN, f"not all of {opened} tasks became {state}")

    processes = {**_processes(temporal, work), Part.DATABASE: Process(postgres.pid)}
    return _Scene(processes, begin, waiting)


def _processes(temporal: TemporalServer, work: Work) -> dict[Part, Process]:
    return {Part.WORKER: work.process, Part.SERVER: Process(temporal.pid)}


async def _ready(closing: AsyncExitStack, work: Work) -> None:
    closing.push_async_callback(work.kill)
    await work.ready()


async def _pause(database: str) -> None:
    ledger = await open_ledger(database, connections=1)
    await ledger.set_gate(
        GateChange(
            partition="default",
            paused=True,
            by="benchmark",
            reason="to hold what comes",
            request_id="pause",
        )
    )
    await ledger.aclose()


def _deployment(url: str) -> dict[str, Any]:
    """One kind that does nothing for a day once it waits."""
    kind = {
        "adapter": "http",
        "options": options(url, lookup=True),
        "semantics": {"in_flight_max": _DAY_S},
        "policy": {"ask_first": _DAY_S, "ask_cap": _DAY_S, "held_recheck": _DAY_S},
    }
    return {"sweep_every": 0, "census_every": 0, "kinds": {_KIND: kind}}
