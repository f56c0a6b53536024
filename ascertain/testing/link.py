"""One client's connection through a fault proxy."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from ascertain.testing.connection import end
from ascertain.testing.fault import Ending, Fault

CHUNK_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Stream:
    """Both directions of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Faults(Protocol):
    """What the proxy tells its links."""

    @property
    def standing(self) -> Fault:
        """The fault that holds for everything now."""
        ...

    def pick(self, request: bytes) -> Fault:
        """The fault of this request; uses up its rule."""
        ...

    async def count(self, fault: Fault) -> None:
        """A fault was really done."""
        ...

    async def connect(self) -> Stream:
        """A new connection to the target.

        Raises:
            OSError: There is none to be had.
        """
        ...


class Link(ABC):
    """One client's connection."""

    def __init__(self, client: Stream, faults: Faults) -> None:
        self._client = client
        self._faults = faults
        self._target: Stream | None = None

    @abstractmethod
    async def run(self) -> None:
        """Serve the connection to its end."""

    def cut(self) -> None:
        """Reset both sides now."""
        end(self._client.writer.transport, "reset")
        if self._target is not None:
            end(self._target.writer.transport, "reset")

    async def _finish(self, how: Ending) -> None:
        """End the client's side in one of three ways, and let the target go."""
        if self._target is not None:
            end(self._target.writer.transport, "close")
        if how == "silence":
            await self._hold()
        else:
            end(self._client.writer.transport, how)

    async def _hold(self) -> None:
        """Say nothing until the client goes away."""
        try:
            while await self._client.reader.read(CHUNK_BYTES):
                pass
        except ConnectionError:
            pass
        end(self._client.writer.transport, "close")

    async def _send(self, data: bytes) -> None:
        self._client.writer.write(data)
        await self._client.writer.drain()
