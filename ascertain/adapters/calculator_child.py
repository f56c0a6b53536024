"""Compute what comes in, a line at a time. Run by file in a process of its own, never imported.

Arguments: the module and the name of the function. A line is a JSON object; so is each answer.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Say that we are ready, and then answer line by line until there are no more."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever the function prints is no answer
    function = getattr(import_module(sys.argv[1]), sys.argv[2])
    answers.write(b"{}\n")
    for line in sys.stdin.buffer:
        answers.write(_answer(function, line) + b"\n")


def _answer(function: Callable[[object], object], line: bytes) -> bytes:
    try:
        value = function(json.loads(line))
        return json.dumps({"value": value}, allow_nan=False).encode()
    except Exception as error:  # noqa: BLE001 - it is told, and judged on the other side
        kind = type(error)
        told = {"raised": f"{kind.__module__}.{kind.__qualname__}", "text": str(error)}
        return json.dumps(told).encode()


if __name__ == "__main__":
    main()
