"""How long it takes from a crash, or from a lost answer, until the effect is asked for and settled."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
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
from benchmarks.durable import LEVER_VARIABLE
from benchmarks.lever import AS_IT_IS, CLINGS, EFFECTS, ORCHESTRATES
from benchmarks.summary import Spread
from benchmarks.tuned_server import TunedServer
from benchmarks.work import Work
from drill.kind import options
from drill.toml import toml
from starter.postgres import EmbeddedPostgres
from starter.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
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
# Shorter than the server's ten seconds.
_HASTY: Final = timedelta(seconds=5)
_COMPARED: Final = (
    ("killed, queued, heartbeat 2 s", "killed, queued, defaults"),
    (
        "killed with its workflow, heartbeat 2 s",
        "killed with its workflow, heartbeat 2 s, 10 s for the worker that has it",
    ),
    ("killed, inline, workflow task 5 s", "killed, inline"),
    ("answer lost, inline, timers rounded", "answer lost, inline"),
)


@dataclass(frozen=True, slots=True)
class _Crew:
    """Who works in a scene.

    Attributes:
        begin: The levers of the workers that are there at first.
        spare: That of the one who comes for one that is killed.
        configuration: Of the Temporal server.
    """

    begin: tuple[str, ...] = (AS_IT_IS,)
    spare: str = AS_IT_IS
    configuration: Mapping[str, str] = field(default_factory=dict[str, str])


_CREWS: Final = {
    "apart": _Crew((ORCHESTRATES, EFFECTS), EFFECTS),
    "together": _Crew(),
    "inline": _Crew((AS_IT_IS, AS_IT_IS)),
    "clinging": _Crew((CLINGS,), CLINGS),
    # What a server does that is not told otherwise: due timers fire up to a second late.
    "rounded": _Crew(configuration={"history.timerProcessorMaxTimeShift": '"1s"'}),
}


@dataclass(slots=True)
class _Scene:
    """Servers, an outside, and a crew of workers."""

    name: str
    crew: _Crew
    folder: Path
    environment: dict[str, str]
    outside: Outside
    client: Client
    hasty: Client
    ledger: Ledger
    closing: AsyncExitStack
    numbers: itertools.count[int]
    workers: list[Work]

    async def hire(self, lever: str | None = None) -> None:
        """Start another worker."""
        name = f"{self.name}-{next(self.numbers)}"
        variables = {**self.environment, LEVER_VARIABLE: lever or self.crew.spare}
        work = Work(name, "benchmarks.tuned_worker", self.folder, variables)
        self.closing.push_async_callback(work.kill)
        await work.ready()
        self.workers.append(work)

    def effect(self, task_id: str) -> str:
        """The id of a task's one effect."""
        return keys.effect_id(self.client.temporal.namespace, task_id, "do", 0)

    async def submit(self, kind: str, reply: Reply, client: Client) -> str:
        """Start a task whose first call meets this reply, and wait for that call."""
        step = Step(name="do", kind=kind, input={"amount": 1})
        task = Task(task_id=f"task-{next(self.numbers)}", kind="benchmark", steps=(step,))
        effect = self.effect(task.task_id)
        self.outside.rules.add(Rule(reference=effect, times=1, submit=SubmitKnobs(reply=reply)))
        await client.submit(task)

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
        task_id = await self.submit(kind, _HANGS, self.client)
        await (
            self.lost()
        )  # a worker that has had nothing to do for ten seconds is not waited for anyway
        await asyncio.gather(asyncio.sleep(_AFTER_LEASE_S), self.hire())
        return await self.taken_over(task_id)

    async def killed_at_once(self, client: Client) -> float:
        """The same for an inline effect, which the other worker takes over."""
        took = await self.taken_over(await self.submit(_INLINE, _HANGS, client))
        await self.hire()
        return took

    async def taken_over(self, task_id: str) -> float:
        """Kill the worker that waits for the task's answer, and tell how long the question takes."""
        case = await self.ledger.inspect(self.effect(task_id))
        owner = "" if case is None else case.row.lease_owner
        (doomed,) = (work for work in self.workers if f":{work.process.pid}/" in owner)
        self.workers.remove(doomed)
        begun = perf_counter()
        await doomed.kill()
        await self.asked(task_id)
        took = perf_counter() - begun
        await self.done(task_id)
        return took

    async def lost(self) -> float:
        """Seconds from an answer that was lost until the task is done."""
        task_id = await self.submit(_INLINE, Drop(how="reset"), self.client)
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
        scenes = {name: await _scene(closing, folder, name) for name in _CREWS}
        for turn in range(1, rounds + 1):
            tell(f"round {turn} of {rounds}")
            for name, timed in _timed(scenes).items():
                took.setdefault(name, []).append(await timed())
    compared = {
        f"{ours} / {theirs}": _compared(took[ours], took[theirs]) for ours, theirs in _COMPARED
    }
    ratio = next(iter(compared.values())).median
    aim = {"what": "SIGKILL to asked for", "wanted": _MOST, "measured": ratio, "at_least": False}
    return {
        "command": f"./run bench takeover --rounds {rounds}",
        **machine.circumstances(before),
        "takeover": {name: asdict(Spread.of(found)) for name, found in took.items()},
        "compared": {pair: asdict(found) for pair, found in compared.items()},
        "aims": {"heartbeat 2 s / defaults": [{**aim, "met": ratio <= _MOST}]},
    }


def _timed(scenes: Mapping[str, _Scene]) -> Mapping[str, Callable[[], Awaitable[float]]]:
    """What is timed in every round, by its name in the result."""
    apart, together, inline, clinging, rounded = scenes.values()
    whole = "killed with its workflow, heartbeat 2 s"
    return {
        "killed, queued, defaults": lambda: apart.killed(_QUEUED),
        "killed, queued, heartbeat 2 s": lambda: apart.killed(_WATCHED),
        whole: lambda: together.killed(_WATCHED),
        f"{whole}, 10 s for the worker that has it": lambda: clinging.killed(_WATCHED),
        "killed, inline": lambda: inline.killed_at_once(inline.client),
        "killed, inline, workflow task 5 s": lambda: inline.killed_at_once(inline.hasty),
        "answer lost, inline": inline.lost,
        "answer lost, inline, timers rounded": rounded.lost,
    }


def _compared(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    return Spread.of(our / their for our, their in zip(ours, theirs, strict=True))


async def _scene(closing: AsyncExitStack, folder: Path, name: str) -> _Scene:
    crew = _CREWS[name]
    temporal = TunedServer(folder / f"temporal-{name}", crew.configuration)
    postgres = EmbeddedPostgres(folder / f"postgres-{name}")
    for server in (temporal, postgres):
        closing.push_async_callback(server.stop)
    await asyncio.gather(temporal.start(), postgres.start())
    outside = await closing.enter_async_context(Outside())
    ledger = await postgres.create_database("ledger")
    await migrate(ledger)
    file = folder / f"{name}.toml"
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
        name,
        crew,
        folder,
        environment,
        outside,
        Client(client),
        Client(client, task_timeout=_HASTY),
        opened,
        closing,
        itertools.count(1),
        [],
    )
    await asyncio.gather(*map(scene.hire, crew.begin))
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
