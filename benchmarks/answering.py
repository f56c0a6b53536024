"""An outside that answers at once, so that the sides are measured and not it: run with a port.

It keeps nothing and honours no key. The toy outside world keeps books of all it sees, which costs more
than the call.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import TYPE_CHECKING, ClassVar, Final, cast

from typing_extensions import override

from starter.server import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

PATH: Final = "/facts"
_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"


class AnsweringServer(Server):
    """The outside as a process of its own on 127.0.0.1."""

    name: ClassVar[str] = "the answering outside"

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @override
    async def _prepare(self, lock: int) -> None:
        pass

    @override
    def _command(self) -> Sequence[str]:
        return (sys.executable, "-m", "benchmarks.answering", str(self.port))

    @override
    async def _ready(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True


class _Answers(asyncio.Protocol):
    """One connection. Every request is taken for a fact that now exists under its reference."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        self._received += data
        while (body := self._request()) is not None:
            if self._transport is not None:
                self._transport.write(_answer(body))

    def _request(self) -> bytes | None:
        """The body of the next whole request, taken out of what was received."""
        head, found, rest = bytes(self._received).partition(_HEAD_END)
        length = _length(head)
        if not found or len(rest) < length:
            return None
        del self._received[: len(head) + len(found) + length]
        return rest[:length]


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(_LENGTH):
            return int(line[len(_LENGTH) :])
    return 0


def _answer(body: bytes) -> bytes:
    reference = json.loads(body)["reference"]
    fact = json.dumps({"id": f"fact-{reference}", "reference": reference}).encode()
    return (
        b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: "
        + str(len(fact)).encode()
        + _HEAD_END
        + fact
    )


async def _serve(port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    server = await loop.create_server(_Answers, "127.0.0.1", port)
    async with server:
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
