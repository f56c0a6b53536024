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


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run saw.

    Attributes:
        idle: Processor seconds per second of each side while nothing is asked of it.
        batches: In the order in which they ran.
        events: History events of a finished task.
    """

    idle: dict[Contender, dict[Part, float]]
    batches: tuple[Batch, ...]
    events: dict[Contender, int]


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
        await _tasks(side, min(plan.apart, 10), plan.apart, numbers)
    tell("watching the idle stack")
    idle = await _idle(plan, sides)
    batches: list[Batch] = []
    for turn in range(1, plan.rounds + 1):
        for load in plan.loads:
            for side in sides:
                tell(f"round {turn} of {plan.rounds}: {side.contender}, {load.name}")
                batches.append(await _batch(plan, side, load, numbers))
    return Measured(idle, tuple(batches), await _events(sides, numbers))


async def _batch(plan: Plan, side: Side, load: Load, numbers: Iterator[int]) -> Batch:
    before = _used(side)
    wall, latencies = await _tasks(side, load.in_flight, load.tasks, numbers)
    await asyncio.sleep(plan.settle_s)
    return Batch(side.contender, load, tuple(latencies), wall, _since(before, side))


async def run_tasks(side: Side, tasks: int, numbers: Iterator[int]) -> None:
    """So many tasks, one after the other."""
    await _tasks(side, 1, tasks, numbers)


async def _tasks(
    side: Side, in_flight: int, tasks: int, numbers: Iterator[int]
) -> tuple[float, list[float]]:
    """Wall time in seconds, and that of each task."""
    now = asyncio.get_running_loop().time
    left = iter(range(tasks))
    latencies: list[float] = []

    async def one_after_the_other() -> None:
        for _ in left:
            begun = now()
            await side.do(f"{side.contender}-{next(numbers)}")
            latencies.append(now() - begun)

    begun = now()
    async with asyncio.TaskGroup() as group:
        for _ in range(min(in_flight, tasks)):
            group.create_task(one_after_the_other())
    return now() - begun, latencies


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


async def _events(sides: Sequence[Side], numbers: Iterator[int]) -> dict[Contender, int]:
    found: dict[Contender, int] = {}
    for side in sides:
        if side.events is not None:
            task_id = f"{side.contender}-{next(numbers)}"
            await side.do(task_id)
            found[side.contender] = await side.events(task_id)
    return found


def _used(side: Side) -> dict[Part, float]:
    return {part: cpu.seconds(process) for part, process in side.processes.items()}


def _since(before: dict[Part, float], side: Side) -> dict[Part, float]:
    return {part: spent - before[part] for part, spent in _used(side).items()}
