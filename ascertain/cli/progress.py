"""How far a long command is, on standard error."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from ascertain.cli import output

_EVERY_ON_TERMINAL_S: Final = 0.2
_EVERY_IN_LOG_S: Final = 10.0


def _on_terminal() -> bool:
    return sys.stderr.isatty()


@dataclass(slots=True)
class Progress:
    """One line that is written over on a terminal, and a line now and then elsewhere."""

    _live: bool = field(default_factory=_on_terminal)
    _shown_at: float = field(default_factory=monotonic)
    _line: str = ""

    def show(self, text: str) -> None:
        """Say how far it is, if it was not said just now."""
        every = _EVERY_ON_TERMINAL_S if self._live else _EVERY_IN_LOG_S
        if monotonic() - self._shown_at < every:
            return
        self._shown_at = monotonic()
        if self._live:
            self._over(text)
        else:
            output.note(text)

    def say(self, text: str) -> None:
        """Say something that stays."""
        self.clear()
        output.note(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._line:
            self._over("")

    def _over(self, text: str) -> None:
        # Back to the start, the text, and erase what is left of the line before.
        sys.stderr.write(f"\r{text}\x1b[K")
        sys.stderr.flush()
        self._line = text
