"""Heartbeats of queued work: a steady sign of life that carries the latest progress."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from temporalio import activity

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from pydantic import JsonValue


class _Pulse:
    def __init__(self, every: float) -> None:
        self._every = every
        self._progress: JsonValue = None

    def note(self, progress: JsonValue) -> None:
        self._progress = progress
        activity.heartbeat(progress)

    async def beat(self) -> None:
        while True:
            activity.heartbeat(self._progress)
            await asyncio.sleep(self._every)


@asynccontextmanager
async def beating() -> AsyncGenerator[Callable[[JsonValue], None] | None]:
    """Beat three times per heartbeat time-out while the block runs; gives the way to tell progress.

    Inline work has no heartbeat: the block gets None and nothing is started.
    """
    info = activity.info()
    if info.is_local or info.heartbeat_timeout is None:
        yield None
        return
    pulse = _Pulse(info.heartbeat_timeout.total_seconds() / 3)
    beat = asyncio.create_task(pulse.beat())
    try:
        yield pulse.note
    finally:
        beat.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beat
