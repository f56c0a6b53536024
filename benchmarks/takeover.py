"""How long it takes from a crash, or from a lost answer, until the effect is asked for and settled."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter

from ascertain import keys
from ascertain.client import Client
from ascertain.contracts.task import Step, Task, TaskOutcome
from ascertain.ledger.migration import migrate
from ascertain.ledger.postgres import open_ledger
from ascertain.settings import FILE_VARIABLE, LEDGER_VARIABLE
from ascertain.testing.knob import Drop, Reply, Rule, Silence, SubmitKnobs
from ascertain.testing.outside import Outside
from benchmarks import machine
from benchmarks.call import CallFailed
from benchmarks.summary import Spread
from benchmarks.work import Work
from drill.kind import options
from drill.toml import toml
from starter.postgres import EmbeddedPostgres
from starter.temporal import TemporalServer
from starter.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ascertain.ports import Ledger

_WITHIN: Final = timedelta(seconds=90)
# Long work is killed past its permit, so that nothing but the takeover itself is waited for.
_AFTER_LEASE_S: Final = 5.5
_HANGS: Final = Silence(seconds=60)
_INLINE: Final = "fact.inline"
_QUEUED: Final = "fact.queued"
_WATCHED: Final = "fact.watched"
# At most so much of the time that default settings need.
_MOST: Final = 0.5


@dataclass(slots=True)
class _Scene:
    """What runs: two workers at any time, of which either may get a task."""

    folder: Path
    environment: dict[str, str]
    outside: Outside
    client: Client
    ledger: Ledger
    closing: AsyncExitStack
    numbers: itertools.count[int]
    workers: list[Work]

    async def hire(self) -> None:
        """Start another worker."""
        name = f"ascertain-{next(self.numbers)}"
        work = Work(name, "benchmarks.ascertain_worker", self.folder, self.environment)
        self.closing.push_async_callback(work.kill)
        await work.ready()
        self.workers.append(work)

    def effect(self, task_id: str) -> str:
        """The id of a task's one effect."""
        return keys.effect_id(self.client.temporal.namespace, task_id, "do", 0)

    async def submit(self, kind: str, reply: Reply) -> str:
        """Start a task whose first call meets this reply, and wait for that call."""
        step = Step(name="do", kind=kind, input={"amount": 1})
        task = Task(task_id=f"task-{next(self.numbers)}", kind="benchmark", steps=(step,))
        effect = self.effect(task.task_id)
        self.outside.rules.add(Rule(reference=effect, times=1, submit=SubmitKnobs(reply=reply)))
        await self.client.submit(task)

        async def sent() -> bool:
            return len(self.outside.books.facts_of(effect)) > 0

        await until(sent, _WITHIN, f"the call of {task.task_id} did not come")
        return task.task_id

    async def asked(self, task_id: str) -> None:
        """Wait until the outside is asked for the task's effect."""
        effect = self.effect(task_id)

        async def was_asked() -> bool:
            return any(entry.reference == effect for entry in self.outside.books.lookups)

        await until(was_asked, _WITHIN, f"nobody asked for {task_id}")

    async def done(self, task_id: str) -> None:
        if (await self.client.result(task_id)).outcome is not TaskOutcome.DONE:
            raise CallFailed(f"{task_id} was not done")

    async def killed(self, kind: str) -> float:
        """Seconds from the kill of the worker that waits for an answer until the effect is asked for."""
        task_id = await self.submit(kind, _HANGS)
        case = await self.ledger.inspect(self.effect(task_id))
        owner = "" if case is None else case.row.lease_owner
        (doomed,) = (work for work in self.workers if f":{work.process.pid}/" in owner)
        await asyncio.sleep(0 if kind == _INLINE else _AFTER_LEASE_S)
        begun = perf_counter()
        await doomed.kill()
        await self.asked(task_id)
        took = perf_counter() - begun
        await self.done(task_id)
        self.workers.remove(doomed)
        await self.hire()
        return took

    async def lost(self) -> float:
        """Seconds from an answer that was lost until the task is done."""
        task_id = await self.submit(_INLINE, Drop(how="reset"))
        begun = perf_counter()
        await self.done(task_id)
        return perf_counter() - begun


async def measure(folder: Path, rounds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Kill workers and lose answers, in turns, and give the result.

    Args:
        folder: For the servers' data.
        rounds: Each is tried so often.
        tell: Is told what comes next.
    """
    before = machine.load_average()
    took: dict[str, list[float]] = {}
    async with AsyncExitStack() as closing:
        scene = await _scene(closing, folder)
        for turn in range(1, rounds + 1):
            tell(f"round {turn} of {rounds}")
            for name, kind in (
                ("killed, queued, defaults", _QUEUED),
                ("killed, queued, heartbeat 2 s", _WATCHED),
                ("killed, inline", _INLINE),
            ):
                took.setdefault(name, []).append(await scene.killed(kind))
            took.setdefault("answer lost, inline", []).append(await scene.lost())
    watched, usual = (took[f"killed, queued, {which}"] for which in ("heartbeat 2 s", "defaults"))
    ratio = Spread.of(ours / theirs for ours, theirs in zip(watched, usual, strict=True)).median
    aim = {"what": "SIGKILL to asked for", "wanted": _MOST, "measured": ratio, "at_least": False}
    return {
        "command": f"./run bench takeover --rounds {rounds}",
        "machine": machine.machine(),
        "load_average": {"before": before, "after": machine.load_average()},
        "versions": machine.versions(),
        "takeover": {name: asdict(Spread.of(found)) for name, found in took.items()},
        "aims": {"heartbeat 2 s / defaults": [{**aim, "met": ratio <= _MOST}]},
    }


async def _scene(closing: AsyncExitStack, folder: Path) -> _Scene:
    temporal = TemporalServer(folder / "temporal", in_memory=True)
    postgres = EmbeddedPostgres(folder / "postgres")
    for server in (temporal, postgres):
        closing.push_async_callback(server.stop)
    await asyncio.gather(temporal.start(), postgres.start())
    outside = await closing.enter_async_context(Outside())
    ledger = await postgres.create_database("ledger")
    await migrate(ledger)
    file = folder / "ascertain.toml"
    file.write_text(toml(_deployment(outside.url)), "utf-8")
    environment = {
        "TEMPORAL_ADDRESS": temporal.address,
        "TEMPORAL_NAMESPACE": temporal.namespace,
        FILE_VARIABLE: str(file),
        LEDGER_VARIABLE: ledger,
    }
    client = await TemporalClient.connect(
        temporal.address, namespace=temporal.namespace, data_converter=pydantic_data_converter
    )
    opened = await open_ledger(ledger, connections=1)
    closing.push_async_callback(opened.aclose)
    scene = _Scene(
        folder, environment, outside, Client(client), opened, closing, itertools.count(1), []
    )
    await asyncio.gather(scene.hire(), scene.hire())
    return scene


def _deployment(url: str) -> dict[str, Any]:
    """Three kinds of the toy outside: inline, queued as it comes, and queued with a short heartbeat."""

    def kind(within_s: float, **policy: Any) -> dict[str, Any]:  # noqa: ANN401  # as in a file
        return {
            "adapter": "http",
            "options": options(url, lookup=True, timeout_s=within_s),
            "semantics": {"in_flight_max": 1, "max_duration": within_s + 0.5},
            "policy": policy,
        }

    kinds = {
        _INLINE: kind(4.0),
        _QUEUED: kind(60.0),
        _WATCHED: kind(60.0, heartbeat=2),
    }
    return {"sweep_every": 0, "census_every": 0, "kinds": kinds}
