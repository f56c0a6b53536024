"""Where a running development stack is written down, so that the other commands find it.

``ascertain dev`` holds a lock on its data directory for as long as it lives and writes ``stack.json`` into
it. What that file says counts only while the lock is held: a killed stack leaves a file that lies.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ascertain.settings import FILE_VARIABLE, LEDGER_VARIABLE

DATA_VARIABLE: Final = "ASCERTAIN_DATA"
ADDRESS_VARIABLE: Final = "TEMPORAL_ADDRESS"
NAMESPACE_VARIABLE: Final = "TEMPORAL_NAMESPACE"

_FILE: Final = "stack.json"
_LOCK: Final = "lock"


@dataclass(frozen=True, slots=True)
class Stack:
    """A running development stack.

    Attributes:
        pid: The process that holds it together.
        ui_url: Of Temporal's Web UI; None without one.
        ledger_url: Holds the password.
        config: The deployment file that its worker serves.
        outside_url: Of the toy outside world; None where none is needed.
    """

    pid: int
    temporal_address: str
    namespace: str
    ledger_url: str
    config: str
    ui_url: str | None = None
    outside_url: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which any of our programs finds it."""
        return {
            ADDRESS_VARIABLE: self.temporal_address,
            NAMESPACE_VARIABLE: self.namespace,
            LEDGER_VARIABLE: self.ledger_url,
            FILE_VARIABLE: self.config,
        }


def data_directory() -> Path:
    """Where the development stack keeps its data unless it is told otherwise; not created.

    ``$ASCERTAIN_DATA``, or else the usual directory.
    """
    return named() or usual_directory()


def usual_directory() -> Path:
    """Where every terminal of this user looks for a stack that nobody named.

    ``$XDG_STATE_HOME/ascertain`` or ``~/.local/state/ascertain``. For root ``/var/lib/ascertain``: PostgreSQL
    then runs as a user who could not pass through root's home.
    """
    state = os.environ.get("XDG_STATE_HOME")
    if state:
        return Path(state) / "ascertain"
    if os.geteuid() == 0:
        return Path("/var/lib/ascertain")
    return Path.home() / ".local" / "state" / "ascertain"


def named() -> Path | None:
    """Where the development stack is kept that ``$ASCERTAIN_DATA`` names; None if it names none."""
    given = os.environ.get(DATA_VARIABLE)
    return Path(given).absolute() if given else None


def is_ours(directory: Path) -> bool:
    """Whether a stack was ever started on this directory."""
    return (directory / _LOCK).exists()


def lock(directory: Path) -> int | None:
    """Take the directory for one stack; the descriptor holds it. None if another one has it."""
    descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def write(directory: Path, stack: Stack) -> None:
    """Write a stack down, for nobody but its owner, for the file holds a password."""
    unfinished = directory / f"{_FILE}.new"
    unfinished.touch(mode=0o600)
    unfinished.write_text(json.dumps(asdict(stack), indent=2) + "\n", "utf-8")
    unfinished.replace(directory / _FILE)


def remove(directory: Path) -> None:
    """Forget the stack that was written down."""
    (directory / _FILE).unlink(missing_ok=True)


def running(directory: Path | None = None) -> Stack | None:
    """The stack that runs on a data directory, if one does and may be read by us."""
    place = directory or data_directory()
    try:
        if not _held(place / _LOCK):
            return None
        return Stack(**json.loads((place / _FILE).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _held(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
