"""Resident memory of processes, read from the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from benchmarks.cpu import Process

_SHARE: Final = "Pss:"
_KIB: Final = 1024


def resident(process: Process) -> int:
    """Bytes in memory. Pages that processes share count once: each has its part of them.

    Source:
        Linux's proc(5): ``Pss`` in ``/proc/pid/smaps_rollup``.
    """
    return sum(map(_share, process.pids))


def _share(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):  # it ended since
        return 0
    (found,) = (line.split()[1] for line in lines if line.startswith(_SHARE))
    return int(found) * _KIB
