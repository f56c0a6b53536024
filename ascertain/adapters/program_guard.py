"""Become a program that dies with the worker that started it. Run by file, never imported.

Arguments: the worker's process id, then the program and its arguments. A program of its own rather than a
``preexec_fn``, which may deadlock in a process that has threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_NOT_FOUND = 127


def main() -> None:
    """Tie our life to the worker's, and become the program."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit("the worker that started this program is gone already")
    try:
        os.execvp(command[0], command)  # noqa: S606 - the program is the deployment's
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(_NOT_FOUND)


if __name__ == "__main__":
    main()
