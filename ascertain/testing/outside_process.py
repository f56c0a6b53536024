"""The toy outside world as a process of its own, that can be killed and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Self

_START_WITHIN_S = 30


class OutsideProcess:
    """Runs ``python -m ascertain.testing.outside``; ``async with`` starts and ends it.

    It ends with the process that started it, however that one ends.

    Args:
        books: The file of its books; what was acknowledged outlives a kill.
        port: 0 takes a free one; it is kept when the process is started again.
    """

    def __init__(self, *, books: Path | None = None, port: int = 0) -> None:
        self._books = books
        self._port = port
        self._process: asyncio.subprocess.Process | None = None

    @property
    def port(self) -> int:
        """The port that it listens on, once started."""
        return self._port

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.kill()

    async def start(self) -> None:
        """Start it and wait until it listens.

        Raises:
            RuntimeError: It ended or did not listen in time; its own words are on standard error.
        """
        command = ["-m", "ascertain.testing.outside", "--with-parent", "--port", str(self._port)]
        if self._books is not None:
            command += ["--books", str(self._books)]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        line = b""
        if self._process.stdout is not None:
            async with asyncio.timeout(_START_WITHIN_S):
                line = await self._process.stdout.readline()
        if not line.startswith(b"listening on "):
            await self.kill()
            msg = "the toy outside world did not start"
            raise RuntimeError(msg)
        self._port = int(line.rsplit(b":", 1)[1])

    async def kill(self) -> None:
        """End it with SIGKILL; nothing is lost that it acknowledged."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        # Reading to the end lets the pipes be closed here and now.
        await process.communicate()

    def freeze(self) -> None:
        """Stop it with SIGSTOP: connections are accepted by the kernel, and nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            msg = "the toy outside world is not running"
            raise RuntimeError(msg)
        self._process.send_signal(number)
