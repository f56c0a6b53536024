"""Notices an event loop that does not come round, and says what holds it.

Everything that a worker does waits while one coroutine blocks the loop (a synchronous client, a sleep, a long
computation): heartbeats, leases, other effects. Nothing on the loop can say so, hence the thread.
"""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from types import FrameType, TracebackType

_LIBRARIES: Final = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))
# How often the loop shows that it comes round, and the thread looks, within the limit.
_LOOKS: Final = 4


@dataclass(frozen=True, slots=True)
class Blocked:
    """The loop was held up.

    Attributes:
        for_s: For at least so many seconds of its own: those for which the system gave the thread no
            processor, or had suspended the whole process, are not counted.
        task: The name of the task that held it.
        where: File, line and function, innermost outside of the libraries.
    """

    for_s: float
    task: str
    where: str


class Watch:
    """Watches the running loop; ``with`` starts and stops it.

    Args:
        limit: What takes longer is told, once for each time that the loop is held up.
        told: Called in the watching thread.
    """

    def __init__(self, limit: timedelta, told: Callable[[Blocked], None]) -> None:
        self._limit_s = limit.total_seconds()
        self._told = told
        self._suspended_s = 0.0
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._ident = threading.get_ident()
        self._waits = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._come_round()
        self._thread = threading.Thread(target=self._look, name="ascertain-watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._timer.cancel()
        self._thread.join()

    def _come_round(self) -> None:
        self._round = (time.monotonic(), self._starved_s() + self._suspended_s)
        self._timer = self._loop.call_later(self._limit_s / _LOOKS, self._come_round)

    def _look(self) -> None:
        told_of = None
        pause_s = self._limit_s / _LOOKS
        looked, used = time.monotonic(), time.process_time()
        while not self._stop.wait(pause_s):
            now, now_used = time.monotonic(), time.process_time()
            # Late, and the process did nothing meanwhile: that was not the loop's doing.
            self._suspended_s += max(now - looked - pause_s - (now_used - used), 0)
            looked, used = now, now_used
            came = self._round
            held_s = now - came[0] - (self._starved_s() + self._suspended_s - came[1])
            if held_s > self._limit_s and told_of != came:
                told_of = came
                self._told(Blocked(round(held_s, 3), self._task(), self._where()))

    def _starved_s(self) -> float:
        """How long the loop's thread has waited for a processor in all, where the system tells."""
        try:
            return int(self._waits.read_text().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0.0

    def _task(self) -> str:
        task = asyncio.current_task(self._loop)
        return "" if task is None else task.get_name()

    def _where(self) -> str:
        frame = innermost = sys._current_frames().get(self._ident)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
            frame = frame.f_back
        found = frame or innermost
        return "" if found is None else _told(found)


def _told(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
