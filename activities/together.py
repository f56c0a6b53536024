"""Many attempts at once: those of a kind that takes batches share calls, all others go one by one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, cast

from activities.calling import busy_with, called

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from activities.attempt import Attempt
    from ascertain.contracts.outcome import Outcome
    from ascertain.ports import Adapter, BatchAdapter


async def call_all(attempts: Sequence[Attempt]) -> list[Outcome]:
    """Make the calls of all attempts, and say what came of each, in their order."""
    calls = [_call(group) for group in _groups(attempts)]
    told = dict(pair for pairs in await asyncio.gather(*calls) for pair in pairs)
    return [told[attempt.effect.effect_id] for attempt in attempts]


async def _call(group: Sequence[Attempt]) -> Iterable[tuple[str, Outcome]]:
    if len(group) == 1:
        return [(group[0].effect.effect_id, await group[0].call())]
    first = group[0]
    adapter = cast("BatchAdapter", first.adapter)
    permits = [attempt.permit() for attempt in group]
    calls = [attempt.outside_call() for attempt in group]
    busy_with(first.kind.name, f"{first.effect.effect_id} and {len(group) - 1} more")
    effects = [attempt.effect for attempt in group]
    came_to = await called(
        lambda: adapter.perform_many(calls, permits), permits, first.kind, effects, first.breakers
    )
    return zip((effect.effect_id for effect in effects), came_to, strict=True)


def _groups(attempts: Iterable[Attempt]) -> Iterator[Sequence[Attempt]]:
    by_kind: defaultdict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_kind[attempt.kind.name].append(attempt)
    for group in by_kind.values():
        most = batch_max(group[0].adapter)
        for first in range(0, len(group), most):
            yield group[first : first + most]


def batch_max(adapter: Adapter) -> int:
    """The most effects that one call of this adapter may carry; 1 if it takes no batches."""
    most: int = getattr(adapter, "batch_max", 1)
    return most
