"""A connection of any protocol through a fault proxy."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import assert_never

from typing_extensions import override

from ascertain.testing.connection import end
from ascertain.testing.fault import (
    BlackHole,
    CutReply,
    Delay,
    DropReply,
    DropRequest,
    Fault,
    HalfClose,
    OnReply,
    Pass,
    ReplyFault,
    Substitute,
)
from ascertain.testing.link import CHUNK_BYTES, Faults, Link, Stream


class ByteLink(Link):
    """Knows nothing of the protocol: a "request" is what one read from the client brings.

    A fault of the reply strikes at the first bytes that the target sends after that request. Databases
    and mail servers answer when the work is done, so that is after it.
    """

    def __init__(self, client: Stream, faults: Faults) -> None:
        super().__init__(client, faults)
        self._due: Fault = Pass()
        self._request = b""
        self._muted = False

    @override
    async def run(self) -> None:
        """Pump both ways until both are done."""
        try:
            self._target = target = await self._faults.connect()
        except OSError:
            self.cut()
            return
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump_requests(target))
                pumps.create_task(self._pump_replies(target))
        except* OSError:
            self.cut()
        # Nobody reads or writes any more; a connection that only fell silent is open yet.
        end(target.writer.transport, "close")
        end(self._client.writer.transport, "close")

    async def _pump_requests(self, target: Stream) -> None:
        while chunk := await self._client.reader.read(CHUNK_BYTES):
            fault = self._faults.pick(chunk)
            if isinstance(fault, DropRequest):
                await self._faults.count(fault)
                await self._finish(fault.how)
                return
            if isinstance(fault, Substitute) and not fault.forwarded:
                await self._faults.count(fault)
                await self._send(fault.of(b""))
                await self._finish("close")
                return
            if isinstance(fault, BlackHole):
                await self._faults.count(fault)
                self._muted = True
            if self._muted:
                continue
            if isinstance(fault, Delay):
                await asyncio.sleep(fault.request_s)
            if not isinstance(fault, Pass):
                self._due, self._request = fault, chunk
            target.writer.write(chunk)
            await target.writer.drain()
        if not target.writer.is_closing():
            target.writer.write_eof()

    async def _pump_replies(self, target: Stream) -> None:
        while chunk := await target.reader.read(CHUNK_BYTES):
            if self._muted:
                continue
            fault, self._due = self._due, Pass()
            if isinstance(fault, Pass):
                # What holds for everything also holds for a reply that was on its way already.
                fault = self._faults.standing
            if isinstance(fault, OnReply):
                await self._faults.count(fault)
                fault = await fault.ask(self._request)
            if isinstance(fault, BlackHole | DropRequest):
                self._muted = isinstance(fault, BlackHole)
                fault = DropReply("silence") if self._muted else Pass()
            if not await self._pass_on(chunk, fault):
                return
        if not self._muted:
            await self._finish("close")

    async def _pass_on(self, chunk: bytes, fault: ReplyFault) -> bool:
        """Send what the fault leaves of a piece of a reply; whether the link goes on."""
        match fault:
            case Pass():
                await self._send(chunk)
                return True
            case Delay():
                await self._faults.count(fault)
                await asyncio.sleep(fault.reply_s)
                await self._send(chunk)
                return True
            case DropReply(how=how):
                await self._faults.count(fault)
                self._muted = how == "silence"
                if how != "silence":
                    await self._finish(how)
                return self._muted
            case Substitute():
                await self._faults.count(fault)
                await self._send(fault.of(chunk))
                await self._finish("close")
                return False
            case CutReply() | HalfClose():
                return await self._send_start(chunk, fault)
            case _:
                assert_never(fault)

    async def _send_start(self, chunk: bytes, fault: CutReply | HalfClose) -> bool:
        await self._send(chunk[: fault.keep_bytes])
        if len(chunk) < fault.keep_bytes:
            self._due = replace(fault, keep_bytes=fault.keep_bytes - len(chunk))
            return True
        await self._faults.count(fault)
        if isinstance(fault, CutReply):
            await self._finish(fault.how)
            return False
        self._client.writer.write_eof()
        self._muted = True
        return True
