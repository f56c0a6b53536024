"""Processor time of processes, read from the kernel."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_CHILDREN_USER: Final = 13
_CHILDREN_SYSTEM: Final = 14


class Part(StrEnum):
    """Where the processor time of a task goes."""

    CLIENT = "client"
    WORKER = "worker"
    SERVER = "server"
    DATABASE = "database"
    OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class Process:
    """A process, alone or with all that it started."""

    pid: int
    with_children: bool = True

    @property
    def pids(self) -> list[int]:
        """Of all that count."""
        return _family(self.pid) if self.with_children else [self.pid]


def seconds(process: Process) -> float:
    """User and system time so far, in seconds, that of ended and reaped children included."""
    if not process.with_children:
        return _own(process.pid)
    return sum(_own(pid) + _reaped(pid) for pid in _family(process.pid))


def _own(pid: int) -> float:
    """The process's own time to the nanosecond, where /proc would round to a hundredth of a second.

    Source:
        Linux's clock ids of processes: ``MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)``.
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _reaped(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii")
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()
    return (int(fields[_CHILDREN_USER]) + int(fields[_CHILDREN_SYSTEM])) / _TICKS


def _family(root: int) -> list[int]:
    found = [root]
    for pid in found:  # grows while it is walked
        for thread in _threads(pid):
            try:
                found += map(int, (thread / "children").read_text("ascii").split())
            except OSError:
                continue
    return found


def _threads(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []
