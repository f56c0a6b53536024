"""Where one HTTP/1.1 message ends and the next begins, without touching its bytes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import h11

from ascertain.testing.connection import How

_CHUNK_BYTES = 65536
_MAX_HEAD_BYTES = 256 * 1024
_EXPECT = re.compile(rb"\r\nexpect:[^\r]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Request:
    """One whole request as it came, and the bytes that came behind it."""

    method: bytes
    raw: bytes
    rest: bytes


async def read_request(
    reader: asyncio.StreamReader, buffered: bytes, say_continue: Callable[[], None]
) -> Request | None:
    """Read one whole request; None when the client is done.

    An ``Expect: 100-continue`` is answered through ``say_continue`` and taken out, because the body is
    needed before it is known whether the request may be forwarded.

    Raises:
        h11.RemoteProtocolError: What came is not HTTP/1.1, or ended in the middle.
        ConnectionError: The client reset the connection.
    """
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)
    raw = bytearray(buffered)
    if buffered:
        parser.receive_data(buffered)
    method = b""
    continued = False
    while True:
        event = parser.next_event()
        if event is h11.NEED_DATA:
            if parser.they_are_waiting_for_100_continue and not continued:
                continued = True
                say_continue()
            chunk = await reader.read(_CHUNK_BYTES)
            raw += chunk
            parser.receive_data(chunk)
        elif isinstance(event, h11.Request):
            method = event.method
        elif isinstance(event, h11.EndOfMessage):
            rest = parser.trailing_data[0]
            whole = bytes(raw[: len(raw) - len(rest)])
            return Request(method, _EXPECT.sub(b"", whole, 1) if continued else whole, rest)
        elif isinstance(event, h11.ConnectionClosed):
            return None


class ReplyReader:
    """Reads the reply to one request.

    Attributes:
        ended: How the connection ended before the reply was whole; None while and when it is whole.
        reusable: Whether another request may follow on the connection.
    """

    def __init__(self, reader: asyncio.StreamReader, method: bytes) -> None:
        self._reader = reader
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        # How a reply ends depends on the method; the parser needs to have sent a request.
        self._parser.send(h11.Request(method=method, target=b"/", headers=[(b"Host", b"-")]))
        self._parser.send(h11.EndOfMessage())
        self.ended: How | None = None
        self.reusable = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """The reply's bytes as they arrive, to its end or to the end of the connection."""
        while self._unfinished():
            try:
                chunk = await self._reader.read(_CHUNK_BYTES)
                self._parser.receive_data(chunk)
            except ConnectionError:
                self.ended = "reset"
                return
            if chunk:
                yield chunk

    async def whole(self) -> bytes:
        """All bytes of the reply."""
        return b"".join([chunk async for chunk in self.chunks()])

    def _unfinished(self) -> bool:
        if self.ended is not None:
            return False
        try:
            while True:
                event = self._parser.next_event()
                if event is h11.NEED_DATA:
                    return True
                if isinstance(event, h11.EndOfMessage):
                    nothing_more = self._parser.trailing_data == (b"", False)
                    self.reusable = nothing_more and self._parser.their_state is h11.DONE
                    return False
                if isinstance(event, h11.ConnectionClosed):
                    self.ended = "close"
                    return False
        except h11.RemoteProtocolError:
            self.ended = "close"
            return False
