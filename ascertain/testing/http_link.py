"""An HTTP/1.1 connection through a fault proxy."""

from __future__ import annotations

import asyncio
from typing import assert_never

import h11
from typing_extensions import override

from ascertain.testing.connection import end
from ascertain.testing.fault import (
    BlackHole,
    CutReply,
    Delay,
    DropReply,
    DropRequest,
    HalfClose,
    OnReply,
    Pass,
    ReplyFault,
    Substitute,
)
from ascertain.testing.http_message import ReplyReader, Request, read_request
from ascertain.testing.link import Link


class HttpLink(Link):
    """Knows where requests and replies end; each exchange meets one fault."""

    @override
    async def run(self) -> None:
        """Serve one exchange after the other."""
        rest = b""
        try:
            while True:
                request = await read_request(self._client.reader, rest, self._say_continue)
                if request is None or not await self._exchange(request):
                    break
                rest = request.rest
            await self._finish("close")
        except (ConnectionError, h11.RemoteProtocolError):
            self.cut()

    def _say_continue(self) -> None:
        self._client.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def _exchange(self, request: Request) -> bool:
        """Whether the connection goes on."""
        fault = self._faults.pick(request.raw)
        if isinstance(fault, DropRequest | BlackHole):
            await self._faults.count(fault)
            await self._finish("silence" if isinstance(fault, BlackHole) else fault.how)
            return False
        if isinstance(fault, Substitute) and not fault.forwarded:
            await self._faults.count(fault)
            await self._say_instead(fault)
            return False
        if isinstance(fault, Delay):
            await asyncio.sleep(fault.request_s)
        reply = await self._forward(request)
        if isinstance(fault, Pass):
            async for chunk in reply.chunks():
                await self._send(chunk)
        elif not await self._deliver(request, reply, fault):
            return False
        if reply.ended is not None:
            await self._finish(reply.ended)
        return reply.reusable

    async def _forward(self, request: Request) -> ReplyReader:
        target = self._target
        if target is not None and target.reader.at_eof():
            end(target.writer.transport, "close")
            target = None
        if target is None:
            target = self._target = await self._faults.connect()
        target.writer.write(request.raw)
        await target.writer.drain()
        return ReplyReader(target.reader, request.method)

    async def _deliver(
        self,
        request: Request,
        reply: ReplyReader,
        fault: ReplyFault | OnReply,
    ) -> bool:
        """Read the whole reply, then send of it what the fault leaves; whether the link goes on."""
        whole = await reply.whole()
        if reply.ended is not None:
            # The target broke off by itself: there is no answer that could be dropped.
            await self._send(whole)
            return True
        await self._faults.count(fault)
        if isinstance(fault, OnReply):
            fault = await fault.ask(request.raw)
            if not isinstance(fault, Pass):
                await self._faults.count(fault)
        match fault:
            case Pass():
                await self._send(whole)
            case Delay():
                await asyncio.sleep(fault.reply_s)
                await self._send(whole)
            case DropReply():
                await self._finish(fault.how)
                return False
            case CutReply():
                await self._send(whole[: fault.keep_bytes])
                await self._finish(fault.how)
                return False
            case HalfClose():
                await self._send(whole[: fault.keep_bytes])
                self._client.writer.write_eof()
                await self._finish("silence")
                return False
            case Substitute():
                await self._say_instead(fault, whole)
                return False
            case _:
                assert_never(fault)
        return True

    async def _say_instead(self, fault: Substitute, whole: bytes = b"") -> None:
        await self._send(fault.of(whole))
        await self._finish("close")
