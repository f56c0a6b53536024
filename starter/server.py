"""What the embedded servers share: start, readiness, stop, kill, and the lock on their directory."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Self

from ascertain.errors import SetupError
from starter.process import Account, Child, free_port, listens, port_is_free

_POLL_SECONDS = 0.01
_LOCK_WITHIN = timedelta(seconds=5)
_READY_WITHIN = timedelta(seconds=60)
_STOP_WITHIN = timedelta(seconds=15)


class Server(ABC):
    """A server of the development stack: one process, one directory, one port of 127.0.0.1.

    It ends with the process that started it, even if that is killed (on Linux), and a second start on
    the same directory is refused while any process of the first one lives.
    """

    name: ClassVar[str]
    _stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, directory: Path, *, port: int | None = None) -> None:
        """Describe the server; nothing is started or written yet.

        Args:
            directory: Its data, log and lock; created at the first start.
            port: To listen on; None picks a free one, which then stays the same over restarts.
        """
        self.directory = directory.absolute()
        self._port = port
        self._child: Child | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        """The port that it listens on, or will.

        Raises:
            SetupError: None was given, and it was never started.
        """
        if self._port is None:
            raise SetupError(
                f"{self.name} in {self.directory} was never started, so it has no port"
            )
        return self._port

    @property
    def pid(self) -> int:
        """The process id.

        Raises:
            SetupError: It does not run.
        """
        return self._running().pid

    @property
    def log(self) -> Path:
        """The file with everything it wrote."""
        return self.directory / "server.log"

    @property
    def running(self) -> bool:
        """Whether its process lives; says nothing of its health."""
        return self._child is not None and self._child.exit_code is None

    async def start(self) -> None:
        """Start it on what its directory holds, and return when it answers. Does nothing if it runs.

        Raises:
            SetupError: It cannot run here; the message says why and names the log.
        """
        if self.running:
            return
        try:
            await self._launch()
        except OSError as error:
            raise SetupError(f"{self.name} cannot use {self.directory}: {error}") from error
        try:
            await self._wait_until_ready()
        except BaseException:
            await self.kill()
            raise

    async def stop(self) -> None:
        """Stop it cleanly and wait for its end. Does nothing if it does not run."""
        if self._child is not None:
            await self._child.stop(self._stop_signal, _STOP_WITHIN)

    async def kill(self) -> None:
        """SIGKILL it, as a crash would, and wait for its end."""
        if self._child is not None:
            await self._child.kill()

    async def restart(self) -> None:
        """Stop it cleanly and start it again on the same data and port."""
        await self.stop()
        await self.start()

    @property
    def _account(self) -> Account | None:
        return None

    @abstractmethod
    async def _prepare(self, lock: int) -> None:
        """Make the directory fit to start in; ``lock`` is held for it."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """The command line of the server."""

    @abstractmethod
    async def _ready(self) -> bool:
        """Whether it answers by now."""

    def _running(self) -> Child:
        if self._child is None or self._child.exit_code is not None:
            raise SetupError(f"{self.name} in {self.directory} does not run; start it first")
        return self._child

    async def _launch(self) -> None:
        self._make_directory()
        async with self._locked() as lock:
            await self._prepare(lock)
            self._port = free_port() if self._port is None else self._port
            self._refuse_taken(self._port)
            self._child = self._spawn(self._command(), lock)

    def _make_directory(self) -> None:
        """Make what is missing of the path, open to pass through for the server's user, if it has one."""
        missing = [path for path in (self.directory, *self.directory.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            path.chmod(0o700 if self._account is None else 0o711)

    def _spawn(self, command: Sequence[str], lock: int) -> Child:
        return Child(command, log=self.log, cwd=self.directory, account=self._account, keep=lock)

    @asynccontextmanager
    async def _locked(self) -> AsyncGenerator[int]:
        """The lock, which is free once no process of an earlier server lives on this directory."""
        lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            await self._wait_for(lock)
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            yield lock
        finally:
            os.close(lock)  # the server holds it from now on, with every process of its own

    async def _wait_for(self, lock: int) -> None:
        deadline = asyncio.get_running_loop().time() + _LOCK_WITHIN.total_seconds()
        while not _try_lock(lock):
            if asyncio.get_running_loop().time() >= deadline:
                raise SetupError(self._in_use(os.pread(lock, 20, 0).decode()))
            await asyncio.sleep(_POLL_SECONDS)

    def _in_use(self, holder: str) -> str:
        return (
            f"{self.directory} is in use by a {self.name} server that process {holder} started; "
            "stop that one first, or choose another directory"
        )

    def _refuse_taken(self, port: int) -> None:
        if not port_is_free(port):
            raise SetupError(
                f"{self.name} cannot listen on port {port} of 127.0.0.1 because another program does; "
                "stop that one, or choose another port"
            )

    async def _wait_until_ready(self) -> None:
        child = self._running()
        deadline = asyncio.get_running_loop().time() + _READY_WITHIN.total_seconds()
        # Another server may have taken the port since we looked, and would answer in this one's place.
        while not (await self._ready() and listens(child.pid, self.port)):
            if child.exit_code is not None:
                raise SetupError(self._failed(f"ended at once ({child.exit_code})", child))
            if asyncio.get_running_loop().time() >= deadline:
                raise SetupError(self._failed("did not answer in time", child))
            await asyncio.sleep(_POLL_SECONDS)

    def _failed(self, how: str, child: Child) -> str:
        words = f"{self.name} in {self.directory} {how}; the log is {self.log}"
        return f"{words} and ends with:\n{child.last_words}" if child.last_words else words


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
