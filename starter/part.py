"""A part of the development stack that is kept alive: started, watched, started again, stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Final, Protocol

from ascertain.errors import SetupError
from starter.process import Child

Say = Callable[[str], None]

_LOOK_EVERY_S: Final = 0.1
_READY_WITHIN_S: Final = 60
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
# A part that lived as long as this had started well, whatever ended it.
_LIVED_S: Final = 60.0


class Part(Protocol):
    """What can be kept alive; the embedded servers can, and programs of ours."""

    name: ClassVar[str]

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        ...

    async def start(self) -> None:
        """Start it, and return when it works.

        Raises:
            SetupError: It cannot run here.
        """
        ...

    async def stop(self) -> None:
        """Let it finish what it has in hand, and end it."""
        ...

    async def kill(self) -> None:
        """End it at once."""
        ...


class Program:
    """A program of ours with its own log, that says on a line of it when it is ready."""

    name: ClassVar[str]
    _ready: ClassVar[str]  # with what that line begins

    def __init__(
        self, command: Sequence[str], *, folder: Path, environment: Mapping[str, str]
    ) -> None:
        """Describe it; nothing is started yet.

        Args:
            command: An absolute path and its arguments.
            folder: Of its log; created at the start.
            environment: All of its variables, but a few that every child gets.
        """
        self._command = command
        self._folder = folder
        self._environment = environment
        self._child: Child | None = None
        self._began = 0

    @property
    def log(self) -> Path:
        """The file with everything it wrote."""
        return self._folder / f"{self._folder.name}.log"

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._child is not None and self._child.exit_code is None

    @property
    def pid(self) -> int | None:
        """Its process id; None while it does not run."""
        return self._child.pid if self._child is not None and self.running else None

    @property
    def ready_line(self) -> str:
        """What it said when it was ready; empty before that."""
        with self.log.open("rb") as log:
            log.seek(self._began)
            lines = log.read().decode(errors="replace").splitlines(keepends=True)
        whole = (line.rstrip() for line in lines if line.endswith("\n"))
        return next((line for line in whole if line.startswith(self._ready)), "")

    async def start(self) -> None:
        """Start it, and return when it says that it is ready.

        Raises:
            SetupError: It ended, or said nothing in time; the message has its last words.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self.log.touch(mode=0o600)
        self._began = self.log.stat().st_size
        self._child = Child(
            self._command, log=self.log, cwd=Path.cwd(), environment=self._environment
        )
        try:
            async with asyncio.timeout(_READY_WITHIN_S):
                await self._wait_until_ready(self._child)
        except TimeoutError:
            await self.kill()
            raise SetupError(self._failed("was not ready in time")) from None
        except BaseException:
            await self.kill()
            raise

    async def stop(self) -> None:
        """SIGTERM, and time to finish what it has in hand."""
        if self._child is not None:
            await self._child.stop(signal.SIGTERM, timedelta(seconds=30))

    async def kill(self) -> None:
        """SIGKILL."""
        if self._child is not None:
            await self._child.kill()

    async def freeze(self) -> None:
        """SIGSTOP, and wait until every thread of it stands still."""
        if self._child is not None:
            await self._child.freeze()

    def thaw(self) -> None:
        """Let a frozen one go on, as if nothing had happened."""
        if self._child is not None:
            self._child.send(signal.SIGCONT)

    @property
    def frozen(self) -> bool:
        """Whether it lives and stands still, by whomever it was stopped."""
        return self.running and self._child is not None and self._child.frozen

    async def _wait_until_ready(self, child: Child) -> None:
        while not self.ready_line:
            if child.exit_code is not None:
                raise SetupError(self._failed(f"ended at once ({child.exit_code})"))
            await asyncio.sleep(_LOOK_EVERY_S)

    def _failed(self, how: str) -> str:
        words = f"the {self.name} {how}; its log is {self.log}"
        last = self._child.last_words if self._child is not None else ""
        return f"{words} and ends with:\n{last}" if last else words


class Worker(Program):
    """A worker process."""

    name: ClassVar[str] = "worker"
    _ready: ClassVar[str] = "ready: "


class Outside(Program):
    """The toy outside world."""

    name: ClassVar[str] = "toy outside"
    _ready: ClassVar[str] = "listening on "


async def keep(part: Part, say: Say) -> None:
    """Start a part again whenever it ends, less and less eagerly while it will not live. Never returns."""
    loop = asyncio.get_running_loop()
    pause = _FIRST_PAUSE_S
    while True:
        started_at = loop.time()
        while part.running:  # noqa: ASYNC110 - the kernel sets no Event
            await asyncio.sleep(_LOOK_EVERY_S)
        if loop.time() - started_at >= _LIVED_S:
            pause = _FIRST_PAUSE_S
        say(f"The {part.name} has ended; it is started again in {pause:g} s.")
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_S)
        try:
            await part.start()
        except SetupError as error:
            say(str(error))
        else:
            say(f"The {part.name} runs again.")


async def stop(parts: Sequence[Part]) -> None:
    """Stop parts one after the other; if that is interrupted, end all of them at once."""
    try:
        for part in parts:
            await part.stop()
    except asyncio.CancelledError:
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*(part.kill() for part in parts))
        raise
