"""The processes of a chaos run: they are killed, frozen and started again, by themselves and by us."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, Protocol

from ascertain.errors import SetupError

if TYPE_CHECKING:
    from starter.part import Worker
    from starter.server import Server

_TRY_AGAIN_S: Final = 0.5


class Target(Protocol):
    """What can be killed and started again."""

    async def start(self) -> None:
        """Start it and return when it works, or raise SetupError."""
        ...

    async def kill(self) -> None:
        """SIGKILL it."""
        ...


class Seat:
    """Where one process sits; at most one thing happens to it at a time."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lock = asyncio.Lock()

    @property
    def free(self) -> bool:
        """Whether nothing is happening to it now."""
        return not self._lock.locked()

    async def fill(self) -> None:
        """Start a process, again and again while it cannot live for want of another one."""
        async with self._lock:
            await self._start()

    async def kill(self, lasts_s: float) -> None:
        """SIGKILL the process; another one sits down after so many seconds."""
        async with self._lock:
            await self._target.kill()
            await asyncio.sleep(lasts_s)
            await self._start()

    async def _start(self) -> None:
        while True:
            with contextlib.suppress(SetupError):
                await self._target.start()
                return
            await asyncio.sleep(_TRY_AGAIN_S)


class WorkerSeat(Seat):
    """A worker's seat."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        self._worker = worker

    async def freeze(self, lasts_s: float) -> None:
        """SIGSTOP the process for so many seconds; it goes on as if nothing had happened."""
        async with self._lock:
            await self._worker.freeze()
            await asyncio.sleep(lasts_s)
            self._worker.thaw()


def server_seat(server: Server) -> Seat:
    """A server's seat."""
    return Seat(server)
