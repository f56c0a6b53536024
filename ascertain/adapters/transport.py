"""aiohttp's client as a transport for httpx: one call, at most one wire request.

httpx's own connection pool costs tens of milliseconds of processor time per call with a hundred calls in
flight; aiohttp's does not grow with that number. Two habits of aiohttp would break a promise of ours:

* It repeats GET, PUT, DELETE and their like by itself when a kept-alive connection breaks. The outermost
  middleware turns the two exceptions that make it do so into one that does not.
* It hands out a kept-alive connection on which the peer has spoken unasked, and would take those bytes
  for the answer to the next request. Such a connection is refused before anything is written to it.

Whether a request has left is seen where its bytes pass: a gate stands in for the socket's transport until
the first write, and steps aside at it.

Source:
    aiohttp's client reference (``request_class``, client middlewares); RFC 9112 section 9.3.1.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, cast

import aiohttp
import httpx
from typing_extensions import override
from yarl import URL

from ascertain.adapters.sending import Sending

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import AsyncIterator, Iterable
    from datetime import timedelta

    from aiohttp.client_middlewares import ClientHandlerType
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection

    from ascertain.adapters.reach import Reach

_USUAL_HEADERS: Final = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "ascertain"}
# Where a caller's Sending travels in ``httpx.Request.extensions``.
SENDING = "ascertain.sending"


class Ended(aiohttp.ClientError):
    """The one wire request of this call broke; its cause says how. aiohttp does not repeat on it."""


class SpokeUnasked(aiohttp.ClientError):
    """The peer sent bytes before any request on this connection; nothing was written to it."""


class WrotePastTheGate(RuntimeError):
    """An answer came for a request that never asked for its permit: this aiohttp cannot be used."""


class _Gate:
    """Stands in for a connection's transport until the first write is permitted."""

    __slots__ = ("_protocol", "_sending", "_transport")

    def __init__(
        self, protocol: ResponseHandler, transport: asyncio.Transport, sending: Sending
    ) -> None:
        self._protocol = protocol
        self._transport = transport
        self._sending = sending

    def write(self, data: bytes) -> None:
        self._opened().write(data)

    def writelines(self, chunks: Iterable[bytes]) -> None:
        self._opened().writelines(chunks)

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)

    def _opened(self) -> asyncio.Transport:
        self._sending.depart(self._transport)
        self._protocol.transport = self._transport
        return self._transport


class _GatedRequest(aiohttp.ClientRequest):
    """A request whose first byte passes the gate."""

    sending: Sending | None = None

    @override
    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        protocol = conn.protocol
        if self.sending is None or protocol is None:
            raise SpokeUnasked("no connection, or no record of what leaves on it")
        if protocol.should_close:
            raise SpokeUnasked("the peer sent bytes before it was asked")
        if protocol.transport is not None:
            gate = _Gate(protocol, protocol.transport, self.sending)
            protocol.transport = cast("asyncio.Transport", gate)
        response = await super().send(conn)
        self.sending.hand_over()
        return response


class _Once:
    """The middleware of one call: hands it its record, and keeps aiohttp from repeating it."""

    __slots__ = ("_sending",)

    def __init__(self, sending: Sending) -> None:
        self._sending = sending

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if isinstance(request, _GatedRequest):
            request.sending = self._sending
        try:
            return await handler(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as fault:
            raise Ended from fault


class _Answer(httpx.AsyncByteStream):
    """The answer's body as it arrives, undecoded."""

    def __init__(self, response: aiohttp.ClientResponse, sending: Sending) -> None:
        self._response = response
        self._sending = sending

    @override
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._response.content.readany()
        except (aiohttp.ClientError, OSError, TimeoutError) as fault:
            raise as_httpx(fault, self._sending) from fault
        if not chunk:
            raise StopAsyncIteration
        return chunk

    @override
    async def aclose(self) -> None:
        if self._response.closed:
            self._sending.conclude()
        else:
            self._sending.abandon()
            self._response.close()


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Sends each httpx request at most once. Follows no redirect, keeps no cookie, reads no proxy setting.

    Must be built inside the running loop. A caller that wants to know whether bytes have left passes a
    ``Sending`` in ``request.extensions[SENDING]``, and abandons it when the call fails.

    Args:
        verify: How the peer's certificate is checked.
        connections: Most connections at a time, idle ones included.
        connect: Budget for a free place in the pool, the name, the connection and TLS together.
        keep_alive: How long an idle connection is kept.
        reach: Which hosts may be called; None: any.
    """

    def __init__(
        self,
        verify: ssl.SSLContext,
        *,
        connections: int,
        connect: timedelta,
        keep_alive: timedelta,
        reach: Reach | None = None,
    ) -> None:
        self._reach = reach
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=verify,
                limit=connections,
                keepalive_timeout=keep_alive.total_seconds(),
                socket_factory=None if self._reach is None else self._reach.opened,
            ),
            timeout=aiohttp.ClientTimeout(total=None, connect=connect.total_seconds()),
            request_class=_GatedRequest,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers=_USUAL_HEADERS,
            skip_auto_headers=("Content-Type",),
        )

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send it.

        Raises:
            httpx.ConnectError: No byte has left; ConnectTimeout if time ran out.
            httpx.ReadError: Bytes may have left and there is no complete answer; ReadTimeout if time ran
                out. The cause of either is aiohttp's own exception.
        """
        sending = request.extensions.get(SENDING) or Sending()
        if self._reach is not None and not self._reach.admits_host(request.url.host):
            raise httpx.ConnectError(f"{request.url.host} is not on the deployment's list of hosts")
        try:
            response = await self._session.request(
                request.method,
                URL(str(request.url), encoded=True),
                data=_body(await request.aread()),
                headers=_headers(request),
                allow_redirects=False,
                middlewares=(_Once(sending),),
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as fault:
            raise as_httpx(fault, sending) from fault
        if not sending.departed:
            sending.hand_over()
            response.close()
            raise WrotePastTheGate(f"aiohttp {aiohttp.__version__} asked for no permit to send")
        return httpx.Response(
            response.status,
            headers=list(response.raw_headers),
            stream=_Answer(response, sending),
            request=request,
        )

    @override
    async def aclose(self) -> None:
        await self._session.close()


def as_httpx(fault: Exception, sending: Sending) -> httpx.TransportError:
    """The httpx exception that tells the truth about what has left."""
    late = isinstance(fault, TimeoutError)
    name = type(fault).__name__
    if sending.left:
        return httpx.ReadTimeout(name) if late else httpx.ReadError(name)
    return httpx.ConnectTimeout(name) if late else httpx.ConnectError(name)


def _body(content: bytes) -> bytes | io.BytesIO | None:
    # aiohttp warns of bytes beyond 1 MiB, which it writes in one go; it writes a stream piece by piece.
    if len(content) > 1 << 20:
        return io.BytesIO(content)
    return content or None


def _headers(request: httpx.Request) -> list[tuple[str, str]]:
    # The whole body is at hand, so aiohttp states its length; framing is never the caller's business.
    framing = {b"transfer-encoding", b"content-length"}
    raw = request.headers.raw
    return [(k.decode(), v.decode()) for k, v in raw if k.lower() not in framing]
