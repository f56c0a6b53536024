"""How a check comes out: it holds, or it says what was seen, or why it cannot be tried."""

from __future__ import annotations


class Failed(Exception):
    """The check does not hold; says what was seen."""


class Unworkable(Failed):
    """Not even a plain attempt settles, so that nothing else can be tried."""


class NotTried(Exception):
    """The check cannot be made here; says why."""


def expect(holds: bool, seen: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Let the check fail unless it holds."""
    if not holds:
        raise Failed(seen)
