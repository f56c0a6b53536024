"""A TCP server for tests: counts what really reaches it, and answers as its script says."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
DEADLINE_SECONDS = 60


@dataclass
class Received:
    """One whole request as it stood on the wire."""

    head: bytes
    body: bytes

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode()

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode().split("\r\n")[1:]
        return {k.lower(): v for k, v in (line.split(": ", 1) for line in lines if line)}


@dataclass
class Peer:
    """The server's end of one connection."""

    server: RawServer
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> Received:
        """Read one whole request."""
        head = await self._read(self.reader.readuntil(b"\r\n\r\n"))
        received = Received(head, b"")
        length = int(received.headers.get("content-length", "0"))
        received.body = await self._read(self.reader.readexactly(length))
        self.server.requests.append(received)
        return received

    async def rest(self) -> None:
        """Read until the client is gone."""
        with contextlib.suppress(ConnectionError):
            while data := await self._read(self.reader.read(65536)):
                del data
        self.server.gone.set()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Cut the connection with RST."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def _read(self, reading: Awaitable[bytes]) -> bytes:
        data = await reading
        self.server.received += data
        return data


@dataclass
class RawServer:
    """What reached the server so far."""

    port: int = 0
    scheme: str = "http"
    connections: int = 0
    received: bytearray = field(default_factory=bytearray)
    requests: list[Received] = field(default_factory=list)
    peers: list[Peer] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    closing: bool = False

    def url(self, path: str = "/") -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"


@contextlib.asynccontextmanager
async def raw_server(
    script: Callable[[Peer], Awaitable[None]], *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    """Serve ``script`` on every connection; it ends when the client goes."""
    state = RawServer(scheme="https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.connections += 1
        peer = Peer(state, reader, writer)
        state.peers.append(peer)
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            if not state.closing:
                await script(peer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        state.closing = True
        if tls is None:
            await _knock(state.port)
        server.close()
        running = set(tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _knock(port: int) -> None:
    """Be the last one in: a connection still being accepted while its server closes would leak."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await reader.read()
    writer.close()
    await writer.wait_closed()


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for a condition of the test's own objects, with a deadline."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


async def until_cancelled(peer: Peer) -> None:
    """Say nothing for ever."""
    await asyncio.get_running_loop().create_future()
