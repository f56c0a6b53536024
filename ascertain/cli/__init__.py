"""The ``ascertain`` command: thin. It parses, calls and prints."""

from __future__ import annotations

import atexit
import os
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# What an interrupt ends with.
_INTERRUPTED: Final = 130


class _LastWord:
    """Ends the process for good once everybody else has been told that it ends.

    The Temporal SDK has threads of its own, and one that comes back while the interpreter is being taken
    apart aborts the process: a command that failed cleanly would end with a crash.
    """

    def __init__(self) -> None:
        self.exit_code = 1  # of what never came to an end: an error is told, and is no success

    def say(self) -> None:
        os._exit(self.exit_code)


def last_word(run: Callable[[], int]) -> int:
    """Run what this process is for, which then ends with the returned exit code and nothing else.

    An interrupt that gets past it ends with 130. Once it is over, another one ends the process at once.
    """
    last = _LastWord()
    atexit.register(last.say)  # first in, so last to be called
    try:
        last.exit_code = run()
    except KeyboardInterrupt:
        last.exit_code = _INTERRUPTED
    except SystemExit as asked:  # the completion of a shell ends like this
        last.exit_code = asked.code if isinstance(asked.code, int) else int(asked.code is not None)
        raise
    _interrupt_silently()
    return last.exit_code


def main() -> int:
    """Run the command line of this process, which ends with the returned exit code."""
    noticed = _interrupt_silently()
    from ascertain.cli.program import run  # noqa: PLC0415 - importing the package stays free

    def interruptible() -> int:
        if noticed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return run()

    return last_word(interruptible)


def _interrupt_silently() -> bool:
    """While there is nothing to tidy up, let Ctrl-C end the process, which needs no traceback.

    Returns:
        Whether it did anything: who starts us with Ctrl-C ignored wants it ignored.
    """
    noticed = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if noticed:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return noticed
