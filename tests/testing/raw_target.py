"""A server that answers byte for byte what a test says, and tells what it received."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RawTarget:
    """A listening server; ``port`` is where."""

    port: int = 0
    connections: int = 0
    received: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def raw_target(
    serve: Serve | None = None, replies: tuple[bytes, ...] = ()
) -> AsyncIterator[RawTarget]:
    """Run a server whose connections are handled by ``serve``, or answer reads with ``replies``."""
    target = RawTarget()
    script = list(replies)

    async def scripted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            target.received.append(chunk)
            if script:
                writer.write(script.pop(0))
            if not script:
                writer.write_eof()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target.connections += 1
        try:
            await (serve or scripted)(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    target.port = server.sockets[0].getsockname()[1]
    async with server:
        yield target
