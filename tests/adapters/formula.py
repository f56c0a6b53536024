"""Functions that are computed in processes of their own."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from ascertain.errors import InvalidTask


def double(given):
    return {"doubled": given["number"] * 2, "pid": os.getpid()}


def fails(given):
    raise KeyError(given)


def refuses(given):
    raise InvalidTask("the number is missing")


def dies(given):
    os.kill(os.getpid(), signal.SIGKILL)


def dies_once(given):
    mark = Path(given["mark"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"done": True}


def hangs(given):
    Path(given["mark"]).write_text(str(os.getpid()))
    time.sleep(600)


def hangs_once(given):
    mark = Path(given["mark"])
    if not mark.exists():
        mark.touch()
        time.sleep(600)
    return {"done": True}


def blocks(given):
    """Holds its interpreter: a thread or a coroutine would take the worker along."""
    return sum(number * number for number in range(given["number"])) % 1000


def large(given):
    return "x" * given["number"]


def no_json(given):
    return {1, 2}
