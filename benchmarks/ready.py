"""How a worker process tells that it polls."""

from __future__ import annotations

import sys
from typing import Final

READY: Final = "ready: "


def say_ready(who: str) -> None:
    """Say it on standard output, which is its log."""
    sys.stdout.write(f"{READY}{who}\n")
    sys.stdout.flush()
