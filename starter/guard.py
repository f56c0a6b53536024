"""Become a server that dies with the process that started it. Run by file, never imported.

Arguments: the parent's process id, the uid and gid to run as (``-`` for our own), then the command.
A program of its own rather than a ``preexec_fn``, which may deadlock in a process that has threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def _die_with_parent(parent: int) -> None:
    """Have the kernel kill us when the thread that started us ends (Linux; elsewhere nothing).

    SIGKILL, because a stopped process would keep any other signal pending for ever.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the process that started this server is gone already")


def main() -> None:
    """Drop to the given user, tie our life to the parent's, and become the command."""
    parent, uid, gid, *command = sys.argv[1:]
    if uid != "-":
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    _die_with_parent(int(parent))  # after the change of user, which would clear it
    os.execv(command[0], command)  # noqa: S606 - the command is our own launcher's


if __name__ == "__main__":
    main()
