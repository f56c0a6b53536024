"""What is read of an answer, and what is sent along with a request."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import zlib
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider

from ascertain.adapters.sending import Phase
from ascertain.adapters.wire import Wire, WireSettings
from tests.adapters.raw_server import OK, Peer, RawServer, raw_server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PLENTY = timedelta(seconds=20)
LIMIT = 1 << 20


def answering(answer: bytes) -> Callable[[Peer], Awaitable[None]]:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(answer)

    return script


def whole(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def get(server: RawServer, path: str = "/") -> httpx.Request:
    return httpx.Request("GET", server.url(path))


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (whole(b'{"id": 1}'), b'{"id": 1}'),
        (whole(b""), b""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", b"ab"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK, b"ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"ok"),
    ],
)
async def test_a_whole_answer_is_answered(wire: Wire, answer: bytes, body: bytes):
    async with raw_server(answering(answer)) as server:
        for _ in range(2):
            seen = await wire.exchange(get(server), within=PLENTY)
            assert (seen.phase, seen.error_class, seen.body) == (Phase.ANSWERED, "", body)
            assert seen.sha256 == hashlib.sha256(body).hexdigest()
        assert server.connections == 1


async def test_a_body_that_ends_with_the_connection_is_answered(wire: Wire):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.0 200 OK\r\n\r\nold style")

    async with raw_server(script) as server:
        seen = await wire.exchange(get(server), within=PLENTY)
        assert (seen.phase, seen.body) == (Phase.ANSWERED, b"old style")


async def test_of_a_long_body_only_the_beginning_is_read_and_the_connection_is_dropped(wire: Wire):
    body = b"0123456789" * 500_000

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(whole(body))
        await peer.rest()

    async with raw_server(script) as server:
        seen = await wire.exchange(get(server), within=PLENTY)
        async with asyncio.timeout(10):
            while not server.peers[0].writer.is_closing():
                await asyncio.sleep(0.005)

        assert (seen.phase, seen.status, seen.truncated) == (Phase.ANSWERED, 200, True)
        assert seen.body == body[:LIMIT]
        assert seen.sha256 == hashlib.sha256(body[:LIMIT]).hexdigest()
        assert seen.json() is None


async def test_a_body_of_exactly_the_limit_is_whole():
    wire = Wire(WireSettings(max_body_bytes=5))
    async with raw_server(answering(whole(b"12345"))) as server:
        seen = await wire.exchange(get(server), within=PLENTY)
        await wire.aclose()
        assert (seen.body, seen.truncated, seen.json()) == (b"12345", False, 12345)


async def test_the_beginning_of_a_number_is_not_a_number():
    wire = Wire(WireSettings(max_body_bytes=5))
    async with raw_server(answering(whole(b"1234567"))) as server:
        seen = await wire.exchange(get(server), within=PLENTY)
        await wire.aclose()
        assert (seen.body, seen.truncated, seen.json()) == (b"12345", True, None)


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        (b"gzip", gzip.compress(b'{"id":"a"}', mtime=0)),
        (b"deflate", zlib.compress(b'{"id":"a"}')),
    ],
)
async def test_a_peer_that_compresses_unasked_is_understood(
    wire: Wire, encoding: bytes, packed: bytes
):
    answer = whole(packed, b"Content-Encoding: " + encoding)
    async with raw_server(answering(answer)) as server:
        seen = await wire.exchange(get(server), within=PLENTY)
        assert seen.json() == {"id": "a"}
        assert seen.sha256 == hashlib.sha256(packed).hexdigest()
        assert server.requests[0].headers["accept-encoding"] == "identity"


async def test_a_decompression_bomb_is_cut(wire: Wire):
    bomb = gzip.compress(b"\0" * (100 << 20))
    async with raw_server(answering(whole(bomb, b"Content-Encoding: gzip"))) as server:
        seen = await wire.exchange(get(server), within=PLENTY)
        assert (len(seen.body), seen.truncated) == (LIMIT, True)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"\xff\xfe{}", b"X: y"),
        (b"{", b"Content-Type: application/json"),
        (b"not gzip", b"Content-Encoding: gzip"),
        (b"[" * 100_000, b"X: y"),
        (b'{"amount": NaN}', b"X: y"),
        (b"caf\xc3", b"Content-Type: text/plain; charset=no-such-charset"),
        (b"", b"X-Bytes: \xff\xfe"),
    ],
)
async def test_a_body_that_cannot_be_decoded_is_harmless(wire: Wire, body: bytes, headers: bytes):
    async with raw_server(answering(whole(body, headers))) as server:
        seen = await wire.exchange(get(server), within=PLENTY)
        assert (seen.phase, seen.json(), seen.body) == (Phase.ANSWERED, None, body)
        assert isinstance(seen.text(), str)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_is_not_followed(wire: Wire, method: str, status: int):
    answer = whole(b"", b"Location: /elsewhere", status=b"%d Moved" % status)
    async with raw_server(answering(answer)) as server:
        seen = await wire.exchange(httpx.Request(method, server.url()), within=PLENTY)
        assert (seen.phase, seen.status) == (Phase.ANSWERED, status)
        assert seen.headers["location"] == "/elsewhere"
        assert len(server.requests) == 1


async def test_cookies_are_not_kept(wire: Wire):
    answer = whole(b"", b"Set-Cookie: session=1; Path=/")
    async with raw_server(answering(answer)) as server:
        for _ in range(2):  # by name: cookies of bare addresses are rarely kept by anybody
            request = httpx.Request("GET", f"http://localhost:{server.port}/")
            await wire.exchange(request, within=PLENTY)
        assert len(server.requests) == 2
        assert all("cookie" not in request.headers for request in server.requests)


async def test_a_proxy_in_the_environment_is_not_used(wire: Wire, monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with raw_server(answering(OK)) as server:
        seen = await wire.exchange(get(server), within=PLENTY)
        assert seen.phase is Phase.ANSWERED


@pytest.mark.parametrize("method", METHODS)
async def test_the_request_on_the_wire_is_the_one_that_httpx_built(wire: Wire, method: str):
    async with raw_server(answering(OK)) as server:
        url = server.url("/a%2Fb/%41/ü?x=%20+1&y=ü#part")
        headers = {"Authorization": "Bearer t", "X-Twice": "a", "X-Name": "é".encode()}
        request = httpx.Request(method, url, headers=headers, json={"a": [1, "é"]})
        await wire.exchange(request, within=PLENTY)

        seen = server.requests[0]
        assert seen.line == f"{method} {request.url.raw_path.decode()} HTTP/1.1"
        assert seen.body == request.content
        assert seen.headers["content-length"] == str(len(request.content))
        assert seen.headers["content-type"] == "application/json"
        assert seen.headers["authorization"] == "Bearer t"
        assert seen.headers["x-name"] == "é"
        assert seen.headers["host"] == f"127.0.0.1:{server.port}"
        assert seen.headers["user-agent"] == "ascertain"
        assert "transfer-encoding" not in seen.headers


async def test_a_write_without_a_body_says_so(wire: Wire):
    async with raw_server(answering(OK)) as server:
        await wire.exchange(httpx.Request("POST", server.url()), within=PLENTY)
        assert server.requests[0].headers["content-length"] == "0"
        assert "content-type" not in server.requests[0].headers


async def test_a_request_carries_the_active_trace(wire: Wire):
    tracer = TracerProvider().get_tracer("test")
    async with raw_server(answering(OK)) as server:
        await wire.exchange(get(server), within=PLENTY)
        with tracer.start_as_current_span("perform") as span:
            await wire.exchange(get(server), within=PLENTY)
        without, carried = (request.headers for request in server.requests)
        assert "traceparent" not in without
        assert f"{span.get_span_context().trace_id:032x}" in carried["traceparent"]


async def reset(peer: Peer) -> None:
    await peer.request()
    peer.reset()


async def cut_off(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ns3cret")


@pytest.mark.parametrize("script", [reset, cut_off, answering(b"s3cret\r\n\r\n")])
async def test_no_secret_stands_in_what_is_said_of_a_failure(
    wire: Wire, script: Callable[[Peer], Awaitable[None]]
):
    async with raw_server(script) as server:
        url = server.url("/s3cret?key=s3cret")
        said: list[str] = []
        for target in (url, url.replace(str(server.port), "1"), url.replace("//", "//u:s3cret@")):
            request = httpx.Request(
                "POST", target, headers={"Authorization": "s3cret"}, json={"card": "s3cret"}
            )
            seen = await wire.exchange(request, within=PLENTY)
            assert "s3cret" not in repr(seen)
            assert seen.error_class in seen.detail
            said.append(seen.phase)
        assert said == [Phase.LEFT, Phase.NEVER_LEFT, Phase.NEVER_LEFT]


async def test_a_header_that_would_split_the_request_never_leaves(wire: Wire):
    async with raw_server(answering(OK)) as server:
        request = httpx.Request("POST", server.url(), headers={"X": "a\r\nY: b"}, content=b"x")
        seen = await wire.exchange(request, within=PLENTY)
        assert seen.phase is Phase.NEVER_LEFT
        assert server.received == b""


async def test_a_closed_wire_connects_again(wire: Wire):
    async with raw_server(answering(OK)) as server:
        await wire.exchange(get(server), within=PLENTY)
        await wire.aclose()
        seen = await wire.exchange(get(server), within=PLENTY)
        assert seen.phase is Phase.ANSWERED
        assert server.connections == 2
