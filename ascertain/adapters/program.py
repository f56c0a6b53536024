"""A program as a process of its own: bounded, heard while it runs, and gone when we are."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_GUARD: Final = Path(__file__).with_name("program_guard.py")
_GRACE_S: Final = 3
_TAIL: Final = 400
_CHUNK: Final = 4096
_LONGEST_LINE: Final = 4096
# Programs that show their progress on one line begin it anew with a carriage return.
_LINE_END: Final = re.compile(rb"[\r\n]+")


class Program:
    """One run of a program, without a shell, in a process group of its own.

    Args:
        command: The program and its arguments.
        folder: Where it runs.
        environment: All that it gets.
        on_line: Called with each line that it writes, to standard output or error.

    Attributes:
        tail: The end of what it wrote.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        on_line: Callable[[str], None],
    ) -> None:
        self._command = command
        self._folder = folder
        self._environment = environment
        self._on_line = on_line
        self.tail = ""

    async def run(self) -> int:
        """Run it to its end and return its exit code; the negative signal number if one ended it.

        A cancellation ends the whole process group, and returns only when the program is gone.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            _GUARD,
            str(os.getpid()),
            *self._command,
            cwd=self._folder,
            env=dict(self._environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            await self._listen(process)
            return await process.wait()
        finally:
            await _end(process)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is None:
            return
        rest = b""
        while chunk := await process.stdout.read(_CHUNK):
            *lines, rest = _LINE_END.split(rest + chunk)
            rest = rest[-_LONGEST_LINE:]
            for line in lines:
                self._hear(line)
        self._hear(rest)

    def _hear(self, line: bytes) -> None:
        text = line.decode("utf-8", errors="replace")
        if text:
            self.tail = f"{self.tail}\n{text}"[-_TAIL:].strip()
            self._on_line(text)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the program if it runs, and whatever it left behind in its group."""
    if process.returncode is None:
        _signal(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await process.wait()
    _signal(process.pid, signal.SIGKILL)
    await process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
