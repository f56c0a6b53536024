"""What a process shows of itself to whoever watches it."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from opentelemetry.metrics import Observation

from ascertain import metric, telemetry
from ascertain.exposition import Exposition
from ascertain.wait import longest_legal
from workers import core

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

    from ascertain.ports import Kind
    from ascertain.settings import WorkerSettings
    from ascertain.watch import Blocked

log = logging.getLogger("ascertain.worker")

SERVICE: Final = "ascertain-worker"
# What takes longer delays everybody's leases and heartbeats.
HELD_UP: Final = timedelta(seconds=1)
_NO_KIND: Final = "none"


@asynccontextmanager
async def shown(service: str, address: str | None) -> AsyncGenerator[Exposition | None]:
    """What this process counts: sent where the ``OTEL_`` variables say, and served where an address is given.

    Raises:
        InvalidSettings: It cannot be served there, or the ``OTEL_`` variables are wrong.
    """
    async with AsyncExitStack() as stack:
        exposition = None
        if address is not None:
            exposition = await stack.enter_async_context(Exposition(address))
        telemetry.measure(service, None if exposition is None else exposition.registry)
        yield exposition


async def watched(
    wished: WorkerSettings, kinds: Mapping[str, Kind], stack: AsyncExitStack
) -> Exposition | None:
    """Serve what the deployment wants to see of this process, from now until the stack is left.

    Raises:
        InvalidSettings: It cannot be served where it should be, or the ``OTEL_`` variables are wrong.
    """
    core.begin(wished.temporal_metrics)
    exposition = await stack.enter_async_context(shown(SERVICE, wished.metrics))
    metric.observe(metric.LONGEST_LEGAL, lambda: _declared(kinds))
    return exposition


def _declared(kinds: Mapping[str, Kind]) -> Iterable[Observation]:
    for name, kind in kinds.items():
        yield Observation(longest_legal(kind).total_seconds(), metric.labels(name))


def held_up(kinds: Mapping[str, Kind]) -> Callable[[Blocked], None]:
    """Counts and logs each time that the event loop is held up; for the watching thread."""
    # A counter that was never 0 shows no rise when it is 1.
    for name in (*kinds, _NO_KIND):
        metric.loop_held.add(0, metric.labels(name))

    def told(blocked: Blocked) -> None:
        # A task that is busy with an effect is named after its kind and itself.
        kind = blocked.task.partition(" ")[0]
        metric.loop_held.add(1, metric.labels(kind if kind in kinds else _NO_KIND))
        log.warning(
            "the event loop was held up for %.1f s and more by %s, at %s: every effect of this worker waits; "
            "run what blocks in a thread or a process",
            blocked.for_s,
            blocked.task or "a callback",
            blocked.where,
        )

    return told
