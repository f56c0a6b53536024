"""The kit's handle on the process with the adapter."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final, Self

from pydantic import TypeAdapter

from ascertain.errors import InvalidSettings
from ascertain.testing.conformance.message import (
    Held,
    Message,
    Opened,
    Opening,
    Order,
    Reply,
    read,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_START_WITHIN_S: Final = 60
# Over what an adapter declares, for a machine that is busy.
_GRACE_S: Final = 20
_MESSAGE: Final = TypeAdapter[Message](Message)


class Ended(Exception):
    """The adapter's process is gone, and the kit did not end it.

    Attributes:
        code: Its exit code; negative: the signal.
    """

    def __init__(self, code: int) -> None:
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        super().__init__(f"the adapter ended its process with {how}")
        self.code = code


class Stuck(Exception):
    """The adapter did not come back, long after its time was over."""


class Seat:
    """A process that holds one adapter and does what it is told; ``async with`` starts and ends it.

    Attributes:
        held: When and where the adapter held up its event loop.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._number = 0
        self.held: list[Held] = []
        self._replies: list[Reply] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.kill()

    async def start(self) -> Opened:
        """Start it and open the adapter; gives what the adapter is.

        Raises:
            InvalidSettings: The adapter cannot be opened; says why.
        """
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "ascertain.testing.conformance.seat_process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)},
        )
        self._listening = asyncio.create_task(self._listen(self._process))
        reply = await self._asked(0, written(self._opening), _START_WITHIN_S)
        if reply.opened is None:
            raise InvalidSettings(f"the adapter cannot be opened: {reply.raised}: {reply.text}")
        return reply.opened

    async def obey(self, order: Order, within_s: float) -> Reply:
        """Give an order and wait for what comes of it.

        Args:
            order: Its id is given here.
            within_s: How long the adapter may take by its own word.

        Raises:
            Ended: The process ended first.
            Stuck: It takes much longer, and the process was killed.
        """
        self._number += 1
        order = order.model_copy(update={"id": self._number})
        return await self._asked(order.id, written(order), within_s + _GRACE_S)

    @property
    def secrets(self) -> Mapping[str, str]:
        """What the adapter was given."""
        return self._opening.secrets

    def kept_words(self) -> Iterator[str]:
        """All that the adapter said and a worker would keep."""
        for reply in self._replies:
            if reply.frozen is not None:
                yield base64.b64decode(reply.frozen).decode("utf-8", errors="replace")
            yield reply.model_dump_json(include={"outcome", "outcomes", "finding", "listed"})

    async def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        process, self._process = self._process, None
        listening, self._listening = self._listening, None
        if process is None or listening is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await listening
        if process.stdin is not None:
            process.stdin.close()

    async def _asked(self, number: int, message: bytes, within_s: float) -> Reply:
        process = self._process
        if process is None or process.stdin is None:
            msg = "the adapter's process is not running"
            raise RuntimeError(msg)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        with contextlib.suppress(ConnectionError):
            process.stdin.write(message)
            await process.stdin.drain()
        try:
            async with asyncio.timeout(within_s):
                reply: Reply = await waiting
        except TimeoutError:
            await self.kill()
            raise Stuck(f"the adapter did not come back within {within_s:g} s") from None
        return reply

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is None:
            return
        while (said := await read(process.stdout)) is not None:
            message = _MESSAGE.validate_json(said)
            if isinstance(message, Held):
                self.held.append(message)
                continue
            self._replies.append(message)
            if (waiting := self._waiting.pop(message.id, None)) and not waiting.done():
                waiting.set_result(message)
        code = await process.wait()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Ended(code))
        self._waiting.clear()
