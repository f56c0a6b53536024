"""Text made fit for a terminal: that of somebody else, and that which says what to type."""

from __future__ import annotations

import os
import re
from typing import Final

# Control characters, line separators, and what changes the direction of writing.
_CONTROL: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]+"
)
_LONE_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")

# How the reader calls us, for the commands that we print; ./run sets it to itself.
PROGRAM_VARIABLE: Final = "ASCERTAIN_COMMAND"
_OURS: Final = "`ascertain "


def program() -> str:
    """How the reader calls us."""
    return os.environ.get(PROGRAM_VARIABLE) or "ascertain"


def as_typed(text: str) -> str:
    """With every command of ours in it as this reader types it."""
    return text.replace(_OURS, f"`{program()} ")


def counted(number: int, one: str, more: str) -> str:
    """So many of something, in words that fit the number: ``counted(1, "task was", "tasks were")``."""
    return f"{number} {one if number == 1 else more}"


def plain(text: str) -> str:
    """On one line, and without anything that a terminal would obey."""
    return _LONE_SURROGATE.sub("\ufffd", _CONTROL.sub(" ", text)).strip()
