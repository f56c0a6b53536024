"""Run the rounds: every side under every load, one after the other, again and again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.cpu import Part
    from benchmarks.plan import Contender, Load, Plan
    from benchmarks.side import Side


@dataclass(frozen=True, slots=True)
class Batch:
    """One side under one load in one round.

    Attributes:
        latencies_s: Of each task, from its start to its result in the client, in seconds.
        wall_s: From the first start to the last result.
        cpu_s: Processor time meanwhile, and of the pause after it.
    """

    contender: Contender
    load: Load
    latencies_s: tuple[float, ...]
    wall_s: float
    cpu_s: dict[Part, float]

    @property
    def tasks(self) -> int:
        """How many it did."""
        return len(self.latencies_s)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run saw.

    Attributes:
        idle: Processor seconds per second of each side while nothing is asked of it.
        batches: In the order in which they ran.
        events: History events per finished task.
    """

    idle: dict[Contender, dict[Part, float]]
    batches: tuple[Batch, ...]
    events: dict[Contender, float]


async def measure(
    plan: Plan, sides: Sequence[Side], numbers: Iterator[int], tell: Callable[[str], None]
) -> Measured:
    """Warm the sides up, watch them idle, and run the plan's rounds.

    Args:
        plan: What to run.
        sides: Started.
        numbers: Of tasks; none is given out twice.
        tell: Is told what comes next.
    """
    for side in sides:
        tell(f"{side.contender}: warming up")
        await run_tasks(side, plan.apart, numbers, in_flight=min(plan.apart, 10))
    tell("watching the idle stack")
    idle = await _idle(plan, sides)
    batches: list[Batch] = []
    for turn in range(1, plan.rounds + 1):
        for load in plan.loads:
            for side in sides:
                tell(f"round {turn} of {plan.rounds}: {side.contender}, {load.name}")
                done = await batch(side, load, numbers, settle_s=plan.settle_s)
                batches.append(done)
    return Measured(idle, tuple(batches), await _events(plan, sides, numbers))


async def batch(side: Side, load: Load, numbers: Iterator[int], *, settle_s: float) -> Batch:
    """Do one batch, and count its processor time until so many seconds after it."""
    now = asyncio.get_running_loop().time
    task_ids = _task_ids(side, load.tasks, numbers)
    before, begun = _used(side), now()
    latencies = await side.carry(task_ids, load.in_flight)
    wall = now() - begun
    await asyncio.sleep(settle_s)
    return Batch(side.contender, load, tuple(latencies), wall, _since(before, side))


async def run_tasks(
    side: Side, tasks: int, numbers: Iterator[int], *, in_flight: int = 1
) -> Sequence[str]:
    """So many tasks, times the side's scale; gives back their ids."""
    task_ids = _task_ids(side, tasks, numbers)
    await side.carry(task_ids, in_flight)
    return task_ids


def _task_ids(side: Side, tasks: int, numbers: Iterator[int]) -> list[str]:
    return [f"{side.contender}-{next(numbers)}" for _ in range(tasks * side.scale)]


async def _idle(plan: Plan, sides: Sequence[Side]) -> dict[Contender, dict[Part, float]]:
    before = {side.contender: _used(side) for side in sides}
    await asyncio.sleep(plan.idle_s)
    return {
        side.contender: {
            part: spent / plan.idle_s
            for part, spent in _since(before[side.contender], side).items()
        }
        for side in sides
    }


async def _events(
    plan: Plan, sides: Sequence[Side], numbers: Iterator[int]
) -> dict[Contender, float]:
    found: dict[Contender, float] = {}
    for side in sides:
        if side.events is not None:
            task_ids = await run_tasks(side, 1 if side.scale == 1 else plan.apart, numbers)
            found[side.contender] = await side.events(task_ids) / len(task_ids)
    return found


def _used(side: Side) -> dict[Part, float]:
    return {part: cpu.seconds(process) for part, process in side.processes.items()}


def _since(before: dict[Part, float], side: Side) -> dict[Part, float]:
    return {part: spent - before[part] for part, spent in _used(side).items()}
