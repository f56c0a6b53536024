"""How a reply travels, or does not: whole, late, cut off, reset, silent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import assert_never

from aiohttp import web

from ascertain.testing.connection import end
from ascertain.testing.knob import Answer, CutOff, Drop, Reply, Silence
from ascertain.testing.provider import Natural

Truth = Callable[[], Awaitable[Natural]]


@dataclass(frozen=True, slots=True)
class _Sent:
    status: int
    headers: dict[str, str]
    body: bytes


class Courier:
    """Delivers replies; ``stop`` ends every silence at once."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End what is silent or late now."""
        self._stopping.set()

    async def deliver(self, request: web.Request, reply: Reply, truth: Truth) -> web.StreamResponse:
        """Send ``reply``, whose gaps are filled with the truth.

        Returns:
            A response for aiohttp; where the connection has ended it goes nowhere.
        """
        match reply:
            case Answer():
                sent = await self._fill(reply, truth)
                return web.Response(status=sent.status, headers=sent.headers, body=sent.body)
            case Drop():
                await self._pause(reply.after_s)
                end(request.transport, reply.how)
            case CutOff():
                sent = await self._fill(reply.answer, truth)
                if request.transport is not None:
                    request.transport.write(_head(sent) + sent.body[: reply.keep_bytes])
                end(request.transport, reply.how)
            case Silence():
                await self._pause(reply.seconds)
                end(request.transport, "close")
            case _:
                assert_never(reply)
        return web.Response(status=500)

    async def _fill(self, answer: Answer, truth: Truth) -> _Sent:
        await self._pause(answer.after_s)
        natural = Natural(answer.status, {}) if answer.status is not None else await truth()
        headers = {"Content-Type": "application/json"} | natural.headers | answer.headers
        if answer.text is not None:
            return _Sent(natural.status, headers, answer.text.encode(answer.encoding))
        if answer.body is None and answer.status is not None and not answer.pad_bytes:
            return _Sent(natural.status, headers, b"")
        body = natural.body if answer.body is None else answer.body
        if answer.pad_bytes and isinstance(body, dict):
            body = {**body, "padding": "x" * answer.pad_bytes}
        return _Sent(natural.status, headers, json.dumps(body).encode())

    async def _pause(self, seconds: float) -> None:
        if seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return


def _head(sent: _Sent) -> bytes:
    lines = [f"HTTP/1.1 {sent.status} {HTTPStatus(sent.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in sent.headers.items()]
    lines += [f"Content-Length: {len(sent.body)}", "", ""]
    return "\r\n".join(lines).encode("latin-1")
