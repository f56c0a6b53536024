"""Whether a request has left is read off its bytes, whatever breaks it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx
import pytest

from ascertain.adapters.sending import Phase
from ascertain.adapters.wire import Exchange, Wire, WireSettings
from tests.adapters.raw_server import OK, Peer, RawServer, eventually, raw_server, until_cancelled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PLENTY = timedelta(seconds=20)
SOON = timedelta(milliseconds=200)

each_method = pytest.mark.parametrize("method", METHODS)


def request_to(server: RawServer, method: str) -> httpx.Request:
    body = None if method in {"GET", "DELETE"} else {"amount": 1}
    return httpx.Request(method, server.url("/charges"), json=body)


async def keep_alive_once(peer: Peer) -> None:
    """Answer the first request, so that the connection goes back to the pool."""
    if peer.server.connections == 1:
        await peer.request()
        await peer.send(OK)


async def close_after_reading(peer: Peer) -> None:
    await peer.request()


async def reset_after_reading(peer: Peer) -> None:
    await peer.request()
    peer.reset()


async def half_close_after_reading(peer: Peer) -> None:
    await peer.request()
    peer.writer.write_eof()
    await peer.rest()


async def half_close_before_reading(peer: Peer) -> None:
    await peer.reader.readexactly(1)
    peer.writer.write_eof()
    await peer.rest()


async def reset_in_the_middle_of_the_head(peer: Peer) -> None:
    await peer.reader.readexactly(5)
    peer.reset()


BREAKS = (
    close_after_reading,
    reset_after_reading,
    half_close_after_reading,
    half_close_before_reading,
    reset_in_the_middle_of_the_head,
)


@each_method
@pytest.mark.parametrize("broken", BREAKS)
@pytest.mark.parametrize("reused", [True, False])
async def test_a_broken_connection_is_in_doubt_and_never_sent_again(
    wire: Wire, method: str, broken: Callable[[Peer], Awaitable[None]], reused: bool
):
    async def script(peer: Peer) -> None:
        if reused:
            await keep_alive_once(peer)
        await broken(peer)

    async with raw_server(script) as server:
        if reused:
            first = await wire.exchange(request_to(server, method), within=PLENTY)
            assert first.phase is Phase.ANSWERED
        answer = await wire.exchange(request_to(server, method), within=PLENTY)
        await eventually(lambda: len(server.peers) == 1)

        assert answer.phase is Phase.LEFT
        assert answer.error_class == "connection_lost"
        assert server.connections == 1
        assert len(server.requests) <= (2 if reused else 1)


@each_method
async def test_a_stale_connection_that_the_server_dropped_unread_is_in_doubt(
    wire: Wire, method: str
):
    async def script(peer: Peer) -> None:
        await keep_alive_once(peer)
        await until_cancelled(peer)

    async with raw_server(script) as server:
        await wire.exchange(request_to(server, method), within=PLENTY)
        server.peers[0].writer.transport.abort()  # the client's loop has not seen it yet
        answer = await wire.exchange(request_to(server, method), within=PLENTY)

        assert answer.phase is Phase.LEFT
        assert (server.connections, len(server.requests)) == (1, 1)


@each_method
async def test_a_reset_looks_the_same_whether_the_server_committed_or_not(wire: Wire, method: str):
    facts: list[bytes] = []
    answers: list[Exchange] = []
    for commits in (False, True):

        async def script(peer: Peer, commits: bool = commits) -> None:
            await keep_alive_once(peer)
            request = await peer.request()
            if commits:
                facts.append(request.head)
            peer.reset()

        async with raw_server(script) as server:
            await wire.exchange(request_to(server, method), within=PLENTY)
            answers.append(await wire.exchange(request_to(server, method), within=PLENTY))
            assert len(server.requests) == 2

    not_committed, committed = answers
    assert len(facts) == 1
    assert not_committed.phase is committed.phase is Phase.LEFT
    assert not_committed.error_class == committed.error_class


@each_method
async def test_a_name_that_does_not_resolve_never_left(wire: Wire, method: str):
    request = httpx.Request(method, "http://nowhere.invalid/")
    answer = await wire.exchange(request, within=PLENTY)
    assert (answer.phase, answer.error_class) == (Phase.NEVER_LEFT, "name_not_resolved")


@each_method
async def test_a_refused_port_never_left(wire: Wire, method: str):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        request = httpx.Request(method, f"http://127.0.0.1:{taken.getsockname()[1]}/")
        answer = await wire.exchange(request, within=PLENTY)
    assert (answer.phase, answer.error_class) == (Phase.NEVER_LEFT, "connection_refused")


@each_method
async def test_a_tls_handshake_that_hangs_never_left(method: str):
    async def script(peer: Peer) -> None:
        peer.server.received += await peer.reader.read(65536)
        await peer.rest()

    wire = Wire(WireSettings(connect=SOON))
    async with raw_server(script) as server:
        request = httpx.Request(method, f"https://127.0.0.1:{server.port}/", content=b"secret")
        answer = await wire.exchange(request, within=PLENTY)
        await server.gone.wait()
        await wire.aclose()

        assert (answer.phase, answer.error_class) == (Phase.NEVER_LEFT, "connect_timeout")
        assert b"HTTP/" not in server.received
        assert b"secret" not in server.received


async def test_a_certificate_that_is_not_trusted_never_left(wire: Wire, certificate: Path):
    async with raw_server(close_after_reading, tls=server_tls(certificate)) as server:
        answer = await wire.exchange(request_to(server, "POST"), within=PLENTY)
        assert (answer.phase, answer.error_class) == (Phase.NEVER_LEFT, "tls_failed")
        assert server.received == b""


async def test_a_certificate_of_another_host_never_left(certificate: Path):
    wire = Wire(WireSettings(ca_file=certificate))
    async with raw_server(close_after_reading, tls=server_tls(certificate)) as server:
        request = httpx.Request("POST", f"https://localhost:{server.port}/", content=b"x")
        answer = await wire.exchange(request, within=PLENTY)
        await wire.aclose()
        assert (answer.phase, answer.error_class) == (Phase.NEVER_LEFT, "tls_failed")
        assert server.received == b""


async def test_a_certificate_of_the_given_authority_is_trusted(certificate: Path):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)

    wire = Wire(WireSettings(ca_file=certificate))
    async with raw_server(script, tls=server_tls(certificate)) as server:
        answer = await wire.exchange(request_to(server, "POST"), within=PLENTY)
        await wire.aclose()
        assert (answer.phase, answer.body) == (Phase.ANSWERED, b"ok")


@each_method
async def test_a_reset_through_tls_is_in_doubt(certificate: Path, method: str):
    wire = Wire(WireSettings(ca_file=certificate))
    async with raw_server(reset_after_reading, tls=server_tls(certificate)) as server:
        answer = await wire.exchange(request_to(server, method), within=PLENTY)
        await wire.aclose()
        assert answer.phase is Phase.LEFT
        assert (server.connections, len(server.requests)) == (1, 1)


@each_method
async def test_a_connection_that_is_not_taken_in_time_never_left(method: str):
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(4):  # fill the backlog: the next SYN is not answered
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        wire = Wire(WireSettings(connect=SOON))
        request = httpx.Request(method, f"http://127.0.0.1:{address[1]}/")
        answer = await wire.exchange(request, within=PLENTY)
        await wire.aclose()
    assert (answer.phase, answer.error_class) == (Phase.NEVER_LEFT, "connect_timeout")


@each_method
async def test_a_request_that_finds_no_free_connection_never_left(method: str):
    async def script(peer: Peer) -> None:
        await peer.request()
        await until_cancelled(peer)

    # Soon enough, and not too soon for the one that has the connection.
    wire = Wire(WireSettings(connections=1, connect=timedelta(seconds=1)))
    async with raw_server(script) as server:
        hogging = asyncio.create_task(wire.exchange(request_to(server, "GET"), within=PLENTY))
        await eventually(lambda: len(server.requests) == 1)
        answer = await wire.exchange(request_to(server, method), within=PLENTY)
        hogging.cancel()
        await asyncio.wait([hogging])
        await wire.aclose()

        assert (answer.phase, answer.error_class) == (Phase.NEVER_LEFT, "connect_timeout")
        assert len(server.requests) == 1


@pytest.mark.parametrize("reused", [True, False])
async def test_silence_is_in_doubt(wire: Wire, reused: bool):
    async def script(peer: Peer) -> None:
        if reused:
            await peer.request()
            await peer.send(OK)
        await peer.request()
        await until_cancelled(peer)

    async with raw_server(script) as server:
        requests = [request_to(server, method) for method in METHODS]
        if reused:
            await asyncio.gather(*(wire.exchange(request, within=PLENTY) for request in requests))
        within = timedelta(seconds=1)
        answers = await asyncio.gather(*(wire.exchange(r, within=within) for r in requests))

        said = {(answer.phase, answer.error_class) for answer in answers}
        assert said == {(Phase.LEFT, "silence")}
        assert server.connections == len(METHODS)
        assert len(server.requests) == len(METHODS) * (2 if reused else 1)


CUT_OFF = {
    "shorter than its length": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
    "chunks without an end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    "inside a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}",
    "inside the head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "after the status": b"HTTP/1.1 200",
}


@each_method
@pytest.mark.parametrize("cut", CUT_OFF)
@pytest.mark.parametrize("hard", [True, False])
async def test_a_cut_off_answer_is_in_doubt_and_shows_no_status(
    wire: Wire, method: str, cut: str, hard: bool
):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(CUT_OFF[cut])
        if hard:
            peer.reset()

    async with raw_server(script) as server:
        answer = await wire.exchange(request_to(server, method), within=PLENTY)
        assert answer.phase is Phase.LEFT
        assert (answer.status, answer.body, answer.json()) == (None, b"", None)
        assert (server.connections, len(server.requests)) == (1, 1)


MALFORMED = {
    "no http": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "bad status": b"HTTP/1.1 abc OK\r\n\r\n",
    "bad length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    "header too long": b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 100_000 + b"\r\n\r\n",
    "too many headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5_000 + b"\r\n",
    "bad chunk size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
}


@each_method
@pytest.mark.parametrize("malformed", MALFORMED)
async def test_an_answer_that_is_not_http_is_in_doubt(wire: Wire, method: str, malformed: str):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(MALFORMED[malformed])
        await peer.rest()

    async with raw_server(script) as server:
        answer = await wire.exchange(request_to(server, method), within=PLENTY)
        assert answer.phase is Phase.LEFT
        assert answer.status is None
        assert (server.connections, len(server.requests)) == (1, 1)


def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context
