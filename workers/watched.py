"""What a worker process shows of itself to whoever watches it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.metrics import Observation

from ascertain import metric, telemetry
from ascertain.exposition import Exposition, show_temporal
from ascertain.policy import longest_legal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AsyncExitStack

    from ascertain.ports import Kind
    from ascertain.settings import WorkerSettings

SERVICE: Final = "ascertain-worker"


async def watched(
    wished: WorkerSettings, kinds: Mapping[str, Kind], stack: AsyncExitStack
) -> Exposition | None:
    """Serve what the deployment wants to see of this process, from now until the stack is left.

    Raises:
        InvalidSettings: It cannot be served where it should be, or the ``OTEL_`` variables are wrong.
    """
    if wished.temporal_metrics is not None:
        show_temporal(wished.temporal_metrics)
    exposition = None
    if wished.metrics is not None:
        exposition = await stack.enter_async_context(Exposition(wished.metrics))
    telemetry.measure(SERVICE, exposition.registry if exposition is not None else None)
    metric.observe(metric.LONGEST_LEGAL, lambda: _declared(kinds))
    return exposition


def _declared(kinds: Mapping[str, Kind]) -> Iterable[Observation]:
    for name, kind in kinds.items():
        yield Observation(longest_legal(kind).total_seconds(), metric.labels(name))
