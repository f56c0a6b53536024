"""Functions in processes of their own, which are kept warm, can be ended, and take nobody along."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pydantic_core

if TYPE_CHECKING:
    from ascertain.contracts.value import JsonObject

_GUARD: Final = Path(__file__).with_name("program_guard.py")
_CHILD: Final = Path(__file__).with_name("calculator_child.py")
_LONGEST_ANSWER: Final = 1 << 20


class ChildDied(Exception):
    """The process that computed it ended without an answer."""


class Calculators:
    """Processes that compute one function, at most so many at once.

    Args:
        module: Where the function is.
        name: What it is called there.
        processes: Most of them.
    """

    def __init__(self, module: str, name: str, processes: int) -> None:
        self._function = (module, name)
        self._places = asyncio.Semaphore(processes)
        self._idle: list[asyncio.subprocess.Process] = []
        self._starting: set[asyncio.Task[asyncio.subprocess.Process]] = set()

    async def compute(self, given: bytes) -> JsonObject:
        """The child's answer to one line. A cancellation ends the process that computes it.

        Raises:
            ChildDied: There is none.
        """
        async with self._places:
            process = await self._child()
            try:
                answer = await _asked(process, given)
            except BaseException:
                await _ended(process)
                raise
            self._idle.append(process)
            return answer

    async def aclose(self) -> None:
        """End every process."""
        for task in self._starting:
            task.cancel()
        idle, self._idle = self._idle, []
        for process in idle:
            await _ended(process)

    async def _child(self) -> asyncio.subprocess.Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
        # One that is not ready in time goes on starting, for the next who asks.
        task = asyncio.create_task(_started(*self._function))
        self._starting.add(task)
        try:
            process = await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._keep)
            raise
        finally:
            if task.done():
                self._starting.discard(task)
        return process

    def _keep(self, task: asyncio.Task[asyncio.subprocess.Process]) -> None:
        self._starting.discard(task)
        if not task.cancelled() and task.exception() is None:
            self._idle.append(task.result())


async def _started(module: str, name: str) -> asyncio.subprocess.Process:
    python = sys.executable
    process = await asyncio.create_subprocess_exec(
        *(python, "-I", "-S", str(_GUARD), str(os.getpid())),
        *(python, str(_CHILD), module, name),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
        limit=_LONGEST_ANSWER,
    )
    try:
        await _answer(process)
    except BaseException:
        await _ended(process)
        raise
    return process


async def _asked(process: asyncio.subprocess.Process, given: bytes) -> JsonObject:
    if process.stdin is None:
        raise ChildDied
    try:
        process.stdin.write(given + b"\n")
        await process.stdin.drain()
    except ConnectionError as error:
        raise ChildDied from error
    return await _answer(process)


async def _answer(process: asyncio.subprocess.Process) -> JsonObject:
    line = b"" if process.stdout is None else await process.stdout.readline()
    if not line.endswith(b"\n"):
        raise ChildDied
    return cast("JsonObject", pydantic_core.from_json(line))


async def _ended(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
