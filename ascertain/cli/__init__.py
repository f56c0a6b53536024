"""The ``ascertain`` command: thin. It parses, calls and prints."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class _LastWord:
    """Ends the process for good once everybody else has been told that it ends.

    The Temporal SDK has threads of its own, and one that comes back while the interpreter is being taken
    apart aborts the process: a command that failed cleanly would end with a crash.
    """

    def __init__(self) -> None:
        self.exit_code = 0

    def say(self) -> None:
        os._exit(self.exit_code)


def last_word(run: Callable[[], int]) -> int:
    """Run what this process is for, which then ends with the returned exit code and nothing else."""
    last = _LastWord()
    atexit.register(last.say)  # first in, so last to be called
    last.exit_code = run()
    return last.exit_code


def main() -> int:
    """Run the command line of this process, which ends with the returned exit code."""
    from ascertain.cli.program import run  # noqa: PLC0415 - importing the package stays free

    return last_word(run)
