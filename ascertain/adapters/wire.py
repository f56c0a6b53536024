"""The one HTTP layer: a request goes in, what can be said of it comes out as a value.

A fault of the network is never an exception here, because the one thing that matters about it, whether
bytes have left, would be lost on the way up. Nothing is repeated, no redirect is followed, no cookie is
kept, no proxy is read from the environment, and no more of a body is read than was asked for.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

import httpx
import pydantic_core
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ascertain.adapters import fault as faults
from ascertain.adapters.reach import REACH
from ascertain.adapters.sending import Phase, Sending
from ascertain.adapters.transport import SENDING, AiohttpTransport

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

_TRACE: Final = TraceContextTextMapPropagator()
# zlib's sign for "gzip or zlib, whichever the header says".
_ANY_ZLIB: Final = zlib.MAX_WBITS | 32


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What one wire request came to.

    Attributes:
        phase: NEVER_LEFT only if no byte of the request was written; ANSWERED only if status, headers and
            body arrived whole (or as much of the body as is read); otherwise LEFT.
        error_class: Short word for what broke; empty if answered.
        detail: One sentence for people, without any header or body.
        status: None unless answered: the status of a cut-off answer proves nothing.
        headers: Of the answer.
        body: Decompressed if it was compressed; at most the wire's limit.
        truncated: There was more of it, which was not read.
        sha256: Hexadecimal, of the body's bytes as far as they were read, before decompression.
        refusal: What the caller's own check raised right before the first byte.
    """

    phase: Phase
    error_class: str = ""
    detail: str = ""
    status: int | None = None
    headers: httpx.Headers = field(default_factory=httpx.Headers)
    body: bytes = b""
    truncated: bool = False
    sha256: str | None = None
    refusal: Exception | None = None

    def text(self) -> str:
        """The body as UTF-8; what is not UTF-8 is replaced."""
        return self.body.decode("utf-8", errors="replace")

    def json(self) -> JsonValue:
        """The body as JSON; None if it is none, or was truncated."""
        return self._parsed

    @cached_property
    def _parsed(self) -> JsonValue:
        if self.truncated:
            return None
        try:
            parsed: JsonValue = pydantic_core.from_json(self.body, allow_inf_nan=False)
        except ValueError:
            return None
        return parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class WireSettings:
    """Limits of one wire.

    Attributes:
        connections: Most connections at a time, idle ones included.
        connect: Budget for a free place in the pool, the name, the connection and TLS together.
        keep_alive: How long an idle connection is kept for the next request.
        max_body_bytes: Most bytes that are read of an answer's body, and most that it may decompress to.
        ca_file: Certificates, in PEM, that are trusted besides the public ones.
    """

    connections: int = 100
    connect: timedelta = timedelta(seconds=3)
    keep_alive: timedelta = timedelta(seconds=15)
    max_body_bytes: int = 1 << 20
    ca_file: Path | None = None


class Wire:
    """Sends requests, each at most once. Connects when first used, inside the running loop."""

    def __init__(self, settings: WireSettings | None = None) -> None:
        self._settings = settings or WireSettings()
        self._reach = REACH.get()
        self._transport: AiohttpTransport | None = None

    async def exchange(
        self, request: httpx.Request, *, within: timedelta, sending: Sending | None = None
    ) -> Exchange:
        """Send ``request`` at most once and read its answer.

        Args:
            request: Built with httpx; ``traceparent`` is added if a span is active.
            within: Budget for all of it, the body of the answer included.
            sending: The check before the first byte, and a record of what has left that stays readable if
                this call is cancelled. Good for one request.

        Returns:
            What came of it; never raises for a fault of the network or of the peer.
        """
        sending = sending or Sending()
        request.extensions[SENDING] = sending
        _TRACE.inject(request.headers)
        try:
            async with asyncio.timeout(within.total_seconds()):
                return await self._answered(request)
        except asyncio.CancelledError:
            sending.abandon()
            raise
        except Exception as fault:  # noqa: BLE001 - the bytes decide, whatever was raised
            sending.abandon()
            return _unanswered(request, sending, fault)

    async def aclose(self) -> None:
        """Close every connection. Requests on their way end without an answer."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    async def _answered(self, request: httpx.Request) -> Exchange:
        if self._transport is None:
            self._transport = self._connected()
        response = await self._transport.handle_async_request(request)
        limit = self._settings.max_body_bytes
        received = bytearray()
        try:
            # The stream itself, because httpx would decompress without a bound.
            async for chunk in cast("httpx.AsyncByteStream", response.stream):
                received += chunk
                if len(received) > limit:
                    break
        finally:
            await response.aclose()
        body, cut = _unpacked(bytes(received[:limit]), response.headers, limit)
        return Exchange(
            phase=Phase.ANSWERED,
            status=response.status_code,
            headers=response.headers,
            body=body,
            truncated=cut or len(received) > limit,
            sha256=hashlib.sha256(received[:limit]).hexdigest(),
        )

    def _connected(self) -> AiohttpTransport:
        settings = self._settings
        trusted = httpx.create_ssl_context(trust_env=False)
        if settings.ca_file is not None:
            trusted.load_verify_locations(cafile=settings.ca_file)
        return AiohttpTransport(
            trusted,
            connections=settings.connections,
            connect=settings.connect,
            keep_alive=settings.keep_alive,
            reach=self._reach,
        )


def _unanswered(request: httpx.Request, sending: Sending, fault: Exception) -> Exchange:
    phase, url = sending.phase, request.url
    if sending.refusal is not None:
        name = faults.PERMIT_REFUSED
        detail = "never left us: the permit was refused right before the first byte"
    else:
        name = faults.word(fault, phase)
        detail = faults.sentence(fault, phase, url.host, url.port)
    return Exchange(phase=phase, error_class=name, detail=detail, refusal=sending.refusal)


def _unpacked(body: bytes, headers: httpx.Headers, limit: int) -> tuple[bytes, bool]:
    """The body decompressed, at most ``limit`` bytes of it, and whether there was more.

    Some peers compress although they were asked not to. What cannot be decompressed stays as it came.
    """
    if headers.get("content-encoding", "").strip().lower() not in {"gzip", "x-gzip", "deflate"}:
        return body, False
    inflater = zlib.decompressobj(_ANY_ZLIB)
    try:
        plain = inflater.decompress(body, max(limit, 1))
    except zlib.error:
        return body, False
    return plain, bool(inflater.unconsumed_tail)
