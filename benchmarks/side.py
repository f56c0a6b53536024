"""One of the sides that do the same job."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from benchmarks.cpu import Part, Process
    from benchmarks.plan import Contender

# Effects of a side that shares costs, where a side that does one by one does one.
BULK_SCALE: Final = 20


@dataclass(frozen=True, slots=True)
class Side:
    """What the measurement needs of a side.

    Attributes:
        carry: Do tasks of these ids, so many under way at a time; gives back how long each took, in seconds,
            until its durable result was in the client's hands.
        processes: Whose processor time is its cost.
        events: How many history events those tasks have together; None where there is no history.
        database: The address of its database; None where it has none.
        scale: So many tasks are done where a side that does one by one does one: what shares its costs is
            measured over many.
    """

    contender: Contender
    carry: Callable[[Sequence[str], int], Awaitable[Sequence[float]]]
    processes: Mapping[Part, Process]
    events: Callable[[Sequence[str]], Awaitable[int]] | None = None
    database: str | None = None
    scale: int = 1


def one_by_one(
    do: Callable[[str], Awaitable[None]],
) -> Callable[[Sequence[str], int], Awaitable[Sequence[float]]]:
    """Carry tasks by doing each by itself.

    Args:
        do: One task of this id, from its start to the durable result in the client's hands.
    """

    async def carry(task_ids: Sequence[str], in_flight: int) -> Sequence[float]:
        now = asyncio.get_running_loop().time
        left = iter(task_ids)
        latencies: list[float] = []

        async def one_after_the_other() -> None:
            for task_id in left:
                begun = now()
                await do(task_id)
                latencies.append(now() - begun)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(in_flight, len(task_ids))):
                group.create_task(one_after_the_other())
        return latencies

    return carry
