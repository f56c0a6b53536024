"""Child processes that never outlive us, and what they need of the machine: a user, a port, a place."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pwd
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Final

_GUARD = Path(__file__).with_name("guard.py")
_POLL_SECONDS = 0.01
_DEATH_WITHIN = timedelta(seconds=10)
_FIRST_PORT = 10_240
_LOG_LINES_SHOWN = 8
# Columns of /proc/net/tcp, and what the second of them holds where somebody listens.
_STATE, _INODE = 3, 9
_LISTEN = "0A"


@dataclass(frozen=True, slots=True)
class Account:
    """A user that a server runs as instead of ours."""

    name: str
    uid: int
    gid: int

    def reaches(self, path: Path) -> bool:
        """Whether the permission bits let this user pass through every folder down to ``path``."""
        return all(self._enters(place) for place in (path, *path.parents))

    def _enters(self, path: Path) -> bool:
        status = path.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & 0o100)
        if status.st_gid == self.gid:
            return bool(status.st_mode & 0o010)
        return bool(status.st_mode & 0o001)


def unprivileged_account() -> Account | None:
    """The user for servers that refuse to run as root; None where we are not root."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_name, nobody.pw_uid, nobody.pw_gid)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on, below those that the kernel gives to clients.

    With one of the clients' ports, a client that keeps calling a stopped server could be given the
    server's own port and keep it. No other process of ours is given it while this one lives: a server
    begins to listen only some time after its port was chosen.
    """
    first_client_port = _first_client_port()
    if first_client_port > _FIRST_PORT:
        for _ in range(100):
            port = _FIRST_PORT + secrets.randbelow(first_client_port - _FIRST_PORT)
            if port_is_free(port) and _is_ours(port):
                return port
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        return int(port)


_given: Final[set[int]] = set()


def _is_ours(port: int) -> bool:
    """Whether nobody of this user was given it yet; from now on we were."""
    if port in _given:
        return False
    if (book := _book()) is not None:
        try:
            fcntl.lockf(book, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
    _given.add(port)
    return True


@cache
def _book() -> int | None:
    """A file of which whoever was given a port locks the byte of its number; None where there can be none."""
    file = f"/tmp/ascertain-ports-{os.geteuid()}"  # noqa: S108  # one for all, whatever TMPDIR says
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None


def port_is_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1 now."""
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def listens(pid: int, port: int) -> bool:
    """Whether it is this process that listens on this port of 127.0.0.1, and not one that was quicker.

    Source:
        Linux's proc(5): ``/proc/net/tcp`` and ``/proc/pid/fd``; where they cannot be read the answer is yes.
    """
    if sys.platform != "linux":
        return True
    sockets = _listening(f"0100007F:{port:04X}")
    try:
        return any(file.readlink().name in sockets for file in Path(f"/proc/{pid}/fd").iterdir())
    except PermissionError:  # root in a container may not look into another user's process
        return True
    except OSError:  # it ended, or closed one of them while we looked
        return False


def _listening(address: str) -> set[str]:
    """The sockets that listen there, as a process that has them open names them."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return {
        f"socket:[{row[_INODE]}]" for row in rows if row[1] == address and row[_STATE] == _LISTEN
    }


def _first_client_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32_768


class Child:
    """One started process in a session of its own, with its output in a file."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        cwd: Path,
        account: Account | None = None,
        keep: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it, from a thread that lives as long as we do: on Linux the child is killed with it.

        Args:
            command: An absolute path and its arguments.
            log: Appended to.
            cwd: Its working directory, and its HOME.
            account: Whom to run as.
            keep: A descriptor that it holds open as long as it, or a child of its own, lives.
            environment: Variables besides the few that it gets anyway; nothing of ours is inherited.
        """
        uid, gid = ("-", "-") if account is None else (str(account.uid), str(account.gid))
        with log.open("ab") as output:
            self._log, self._log_start = log, output.tell()
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", _GUARD, str(os.getpid()), uid, gid, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={
                    "HOME": str(cwd),
                    "LC_ALL": "C",
                    "PATH": os.defpath,
                    "TZ": "UTC",
                    **(environment or {}),
                },
                pass_fds=() if keep is None else (keep,),
                start_new_session=True,  # Ctrl-C in the terminal is for us; we then stop the server
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative signal number if one ended it."""
        return self._popen.poll()

    @property
    def last_words(self) -> str:
        """The end of what it wrote to its log."""
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES_SHOWN:])

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        self._popen.send_signal(number)

    async def ended(self, within: timedelta) -> bool:
        """Wait for its end; False if it still runs after ``within``."""
        deadline = asyncio.get_running_loop().time() + within.total_seconds()
        while self.exit_code is None:
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    async def freeze(self) -> None:
        """SIGSTOP it, and wait until every thread of it stands still."""
        self.send(signal.SIGSTOP)
        while self.exit_code is None and not self.frozen:  # noqa: ASYNC110 - the kernel sets no Event
            await asyncio.sleep(_POLL_SECONDS)

    @property
    def frozen(self) -> bool:
        """Whether the kernel holds it stopped."""
        return os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None

    async def stop(self, number: signal.Signals, within: timedelta) -> None:
        """Ask it to stop, and kill it if it has not after ``within``."""
        self.send(number)
        self.send(signal.SIGCONT)  # a stopped process would not hear it
        if not await self.ended(within):
            await self.kill()

    async def kill(self) -> None:
        """SIGKILL it and reap it."""
        self.send(signal.SIGKILL)
        await self.ended(_DEATH_WITHIN)
