"""An effect that changes nothing outside, tried without a claim."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from activities.calling import is_told_to_stop
from ascertain.contracts import directive, outcome
from ascertain.ports import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue

    from activities.serving import Served
    from ascertain.contracts.effect import Effect


@dataclass(frozen=True, slots=True)
class FreePermit:
    """The permit of what needs none."""

    on_progress: Callable[[JsonValue], None] | None

    def check(self) -> None:
        """Nothing leaves."""

    async def renew(self) -> None:
        """There is no lease."""

    def heartbeat(self, progress: JsonValue) -> None:
        """Pass progress on to whoever listens."""
        if self.on_progress is not None:
            self.on_progress(progress)


async def unclaimed(
    served: Served, effect: Effect, on_progress: Callable[[JsonValue], None] | None
) -> directive.Done | None:
    """Try a pure effect once; None if it did not settle, so that from now on every try is counted."""
    try:
        call = Call(effect, served.adapter.prepare(effect), attempt=1)
        async with asyncio.timeout(served.kind.semantics.max_duration.total_seconds()):
            came_to = await served.adapter.perform(call, FreePermit(on_progress))
    except BaseException as error:
        if is_told_to_stop(error):
            raise
        return None
    if not isinstance(came_to, outcome.Settled):
        return None
    return directive.Done(receipt=came_to.receipt, reason="computed; it needs no claim")
