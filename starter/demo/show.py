"""What is seen while it runs: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter, deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from rich.console import Console, RenderableType

WAITING: Final = "waiting"
RUNNING: Final = "RUNNING"

# The order in which a task usually comes through them.
_ORDER: Final = (
    *(WAITING, RUNNING, "IN_FLIGHT", "ACCEPTED", "UNKNOWN", "CLEAR", "TAKEN_OVER", "QUARANTINED"),
    *("DONE", "REFUSED"),
)
_LINES: Final = 12
_EVERY_S: Final = 2.0
_BAR: Final = 40


class Show(Protocol):
    """Where a run tells what happens."""

    def tell(self, line: str) -> None:
        """Something happened, in words."""
        ...

    def states(self, states: Mapping[str, str]) -> None:
        """Where every task stands now, by task."""
        ...


class Plain:
    """Lines, with a count of the states now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()
        self._told = 0.0
        self._last: str = ""

    def tell(self, line: str) -> None:
        """Print the line with the seconds since the start."""
        passed = time.monotonic() - self._begun
        self._console.print(
            f"{passed:5.1f} s  {line}", highlight=False, markup=False, soft_wrap=True
        )

    def states(self, states: Mapping[str, str]) -> None:
        """Print the counts, at most every two seconds and only if they changed."""
        now = time.monotonic()
        line = "tasks: " + ", ".join(f"{count} {state}" for state, count in _counted(states))
        if now - self._told >= _EVERY_S and line != self._last:
            self._told, self._last = now, line
            self.tell(line)


class Lively:
    """A table of the states that changes in place, above the latest lines."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._begun = time.monotonic()
        self._lines = deque[str](maxlen=_LINES)
        self._states: Mapping[str, str] = {}

    def tell(self, line: str) -> None:
        """Add a line."""
        self._lines.append(f"{time.monotonic() - self._begun:5.1f} s  {line}")
        self._live.update(self._view())

    def states(self, states: Mapping[str, str]) -> None:
        """Redraw the table."""
        self._states = dict(states)
        self._live.update(self._view())

    def _view(self) -> RenderableType:
        table = Table(title="tasks by state", title_justify="left", box=None)
        table.add_column("state", min_width=12)
        table.add_column("tasks", justify="right")
        table.add_column("")
        for state, count in _counted(self._states):
            length = round(_BAR * count / len(self._states))
            table.add_row(state, str(count), Text("█" * length))
        return Group(table, Text(""), Text("\n".join(self._lines)))


@contextmanager
def show_on(console: Console) -> Generator[Show]:
    """The live view if the console is a terminal, plain lines if not."""
    if not console.is_terminal:
        yield Plain(console)
        return
    with Live(console=console, refresh_per_second=8) as live:
        yield Lively(live)


def _counted(states: Mapping[str, str]) -> list[tuple[str, int]]:
    counts = Counter(states.values())
    known = [(state, counts.pop(state)) for state in _ORDER if state in counts]
    return [*known, *sorted(counts.items())]
