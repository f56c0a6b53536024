"""Text of somebody else, made fit for a terminal."""

from __future__ import annotations

import re
from typing import Final

# Control characters, line separators, and what changes the direction of writing.
_CONTROL: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]+"
)
_LONE_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def plain(text: str) -> str:
    """On one line, and without anything that a terminal would obey."""
    return _LONE_SURROGATE.sub("\ufffd", _CONTROL.sub(" ", text)).strip()
