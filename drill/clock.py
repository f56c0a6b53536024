"""A worker's wall clock, set wrong from outside the product."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ascertain.adapters import declared

if TYPE_CHECKING:
    from datetime import tzinfo

VARIABLE: Final = "ASCERTAIN_DRILL_CLOCK"
_LIBRARIES: Final = (
    "/usr/lib/*/faketime/libfaketime.so.1",
    "/usr/local/lib/faketime/libfaketime.so.1",
)


def library() -> Path | None:
    """libfaketime, if this machine has it: it moves the clock of the whole process."""
    found = (path for pattern in _LIBRARIES for path in Path("/").glob(pattern.lstrip("/")))
    return next(found, None)


def environment(seconds: int) -> dict[str, str]:
    """The variables with which a worker's wall clock goes wrong by so many seconds."""
    faker = library()
    if faker is None:
        return {VARIABLE: str(seconds)}
    return {
        "LD_PRELOAD": str(faker),
        "FAKETIME": f"{seconds:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def how() -> str:
    """By what the clock is set wrong, for the report."""
    return "libfaketime" if library() is not None else "in the process, for Python code alone"


class _Wrong:
    """Stands where a module would read the time of day."""

    def __init__(self, by: timedelta) -> None:
        self._by = by

    def now(self, zone: tzinfo | None = None) -> datetime:
        return datetime.now(zone) + self._by


def set_wrong() -> None:
    """Set this process's clock wrong, if its environment says so: wherever our code reads it."""
    seconds = int(os.environ.get(VARIABLE, "0"))
    if not seconds:
        return
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + seconds * 10**9
    setattr(declared, "datetime", _Wrong(timedelta(seconds=seconds)))  # noqa: B010 - not exported
