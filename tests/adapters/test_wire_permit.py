"""The permit is asked at the last line before the first byte, and one call sends at most once."""

from __future__ import annotations

import asyncio
import inspect
from datetime import timedelta

import aiohttp
import httpx
import pytest
from aiohttp import client_exceptions

from ascertain.adapters import fault
from ascertain.adapters.sending import NotPermitted, Phase, Sending
from ascertain.adapters.transport import Ended, as_httpx
from ascertain.adapters.wire import Wire, WireSettings
from ascertain.errors import PermitLost
from tests.adapters.raw_server import OK, Peer, RawServer, eventually, raw_server, until_cancelled

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PLENTY = timedelta(seconds=20)


def request_to(server: RawServer, method: str) -> httpx.Request:
    body = None if method in {"GET", "DELETE"} else {"amount": 1}
    return httpx.Request(method, server.url("/charges"), json=body)


async def answer_all(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(OK)


async def take_and_hang(peer: Peer) -> None:
    await peer.request()
    await until_cancelled(peer)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("reused", [True, False])
async def test_a_refused_permit_leaves_nothing_on_the_wire(wire: Wire, method: str, reused: bool):
    lost = PermitLost("fenced")

    def refuse() -> None:
        raise lost

    async with raw_server(answer_all) as server:
        if reused:
            await wire.exchange(request_to(server, method), within=PLENTY)
        before = bytes(server.received)
        sending = Sending(refuse)
        answer = await wire.exchange(request_to(server, method), within=PLENTY, sending=sending)
        await eventually(server.peers[-1].writer.is_closing)

        assert (answer.phase, answer.error_class) == (Phase.NEVER_LEFT, "permit_refused")
        assert answer.refusal is lost
        assert sending.phase is Phase.NEVER_LEFT
        assert server.received == before
        assert server.connections == 1


@pytest.mark.parametrize("method", METHODS)
async def test_the_permit_is_asked_once_on_an_open_connection_before_any_byte(
    wire: Wire, method: str
):
    seen: list[tuple[int, bytes]] = []
    async with raw_server(answer_all) as server:
        sending = Sending(lambda: seen.append((server.connections, bytes(server.received))))
        answer = await wire.exchange(request_to(server, method), within=PLENTY, sending=sending)
        assert answer.phase is Phase.ANSWERED
        assert seen == [(1, b"")]


@pytest.mark.parametrize("method", METHODS)
async def test_a_record_of_one_call_is_not_good_for_a_second_request(wire: Wire, method: str):
    sending = Sending()
    async with raw_server(answer_all) as server:
        await wire.exchange(request_to(server, method), within=PLENTY, sending=sending)
        again = await wire.exchange(request_to(server, method), within=PLENTY, sending=sending)
        assert again.phase is Phase.LEFT
        assert len(server.requests) == 1


async def test_nothing_departs_once_the_call_is_over():
    sending = Sending()
    sending.abandon()
    with pytest.raises(NotPermitted):
        sending.depart(asyncio.Transport())
    assert sending.phase is Phase.NEVER_LEFT


def test_a_second_departure_is_not_permitted():
    asked: list[int] = []
    sending = Sending(lambda: asked.append(1))
    sending.depart(asyncio.Transport())
    with pytest.raises(NotPermitted):
        sending.depart(asyncio.Transport())
    assert asked == [1]


@pytest.mark.parametrize("method", METHODS)
async def test_a_cancelled_call_says_whether_it_had_left(wire: Wire, method: str):
    sending = Sending()
    async with raw_server(take_and_hang) as server:
        call = wire.exchange(request_to(server, method), within=PLENTY, sending=sending)
        task = asyncio.create_task(call)
        await eventually(lambda: len(server.requests) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sending.phase is Phase.LEFT


@pytest.mark.parametrize("method", METHODS)
async def test_a_call_cancelled_while_it_waits_for_a_connection_never_leaves(method: str):
    wire = Wire(WireSettings(connections=1))
    sending = Sending()
    async with raw_server(take_and_hang) as server:
        hogging = asyncio.create_task(wire.exchange(request_to(server, "GET"), within=PLENTY))
        await eventually(lambda: len(server.requests) == 1)
        waiting = asyncio.create_task(
            wire.exchange(request_to(server, method), within=PLENTY, sending=sending)
        )
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        hogging.cancel()
        await asyncio.wait([hogging])
        await wire.aclose()

        assert sending.phase is Phase.NEVER_LEFT
        assert len(server.requests) == 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("turns", range(12))
async def test_a_call_cancelled_at_any_turn_of_the_loop_tells_the_truth(
    wire: Wire, method: str, turns: int
):
    sending = Sending()
    async with raw_server(take_and_hang) as server:
        task = asyncio.create_task(
            wire.exchange(request_to(server, method), within=PLENTY, sending=sending)
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        said = sending.phase
        if server.peers:
            await eventually(lambda: server.peers[0].reader.at_eof() or bool(server.received))

        assert sending.phase is said
        if said is Phase.NEVER_LEFT:
            assert server.received == b""


class WatchedSending(Sending):
    transport: asyncio.Transport | None = None

    def depart(self, transport: asyncio.Transport) -> None:
        super().depart(transport)
        self.transport = transport

    def buffered(self) -> int:
        return 0 if self.transport is None else self.transport.get_write_buffer_size()


@pytest.mark.parametrize("cancelled", [True, False])
async def test_what_is_still_buffered_is_dropped_when_the_call_ends(wire: Wire, cancelled: bool):
    body, sending = b"x" * (32 << 20), WatchedSending()
    async with raw_server(until_cancelled) as server:
        request = httpx.Request("PUT", server.url(), content=body)
        within = PLENTY if cancelled else timedelta(seconds=2)
        task = asyncio.create_task(wire.exchange(request, within=within, sending=sending))
        await eventually(lambda: sending.buffered() > 0)
        if cancelled:
            task.cancel()
        await asyncio.wait([task])

        assert sending.phase is Phase.LEFT
        assert sending.buffered() == 0


async def test_a_body_of_many_pieces_arrives_whole(wire: Wire):
    body = b"0123456789" * 400_000
    async with raw_server(answer_all) as server:
        request = httpx.Request("PUT", server.url(), content=body)
        answer = await wire.exchange(request, within=PLENTY)
        assert answer.phase is Phase.ANSWERED
        assert server.requests[0].body == body


async def test_an_answer_that_came_before_the_question_is_not_taken_for_its_answer(wire: Wire):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await speak.wait()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
        spoken.set()
        await peer.rest()

    speak, spoken = asyncio.Event(), asyncio.Event()
    async with raw_server(script) as server:
        await wire.exchange(request_to(server, "POST"), within=PLENTY)
        speak.set()
        await spoken.wait()
        for _ in range(5):  # the bytes lie in our socket; let the loop read them
            await asyncio.sleep(0)
        second = await wire.exchange(request_to(server, "POST"), within=PLENTY)
        assert (second.phase, second.error_class) == (Phase.NEVER_LEFT, "peer_spoke_unasked")
        assert len(server.requests) == 1

        third = await wire.exchange(request_to(server, "POST"), within=PLENTY)
        assert (third.phase, third.body) == (Phase.ANSWERED, b"ok")


def aiohttp_faults() -> list[type[Exception]]:
    found = inspect.getmembers(client_exceptions, inspect.isclass)
    return sorted(
        {kind for _, kind in found if issubclass(kind, Exception)}, key=lambda kind: kind.__name__
    )


# Faults of aiohttp that say no more than "not sent" or "no answer". A new class of aiohttp's belongs
# either here or into the table of words.
SAYS_NO_MORE = {
    Phase.NEVER_LEFT: {
        "ClientConnectionError", "ClientConnectionResetError", "ClientError", "ClientHttpProxyError",
        "ClientOSError", "ClientPayloadError", "ClientResponseError", "ContentTypeError",
        "InvalidURL", "InvalidUrlClientError", "InvalidUrlRedirectClientError",
        "NonHttpUrlClientError", "NonHttpUrlRedirectClientError", "RedirectClientError",
        "ServerConnectionError", "ServerDisconnectedError", "TooManyRedirects",
        "UploadAbortedError", "WSMessageTypeError", "WSServerHandshakeError",
    },
    Phase.LEFT: {
        "ClientError", "InvalidURL", "InvalidUrlClientError", "InvalidUrlRedirectClientError",
        "NonHttpUrlClientError", "NonHttpUrlRedirectClientError", "RedirectClientError",
        "UploadAbortedError", "WSMessageTypeError",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", aiohttp_faults())
@pytest.mark.parametrize("left", [True, False])
def test_no_fault_of_aiohttp_is_forgotten_and_none_decides_the_phase(
    kind: type[Exception], left: bool
):
    sending = Sending()
    if left:
        sending.depart(asyncio.Transport())
    raised = kind.__new__(kind)
    for wrapped in (raised, _caused_by(raised), as_httpx(raised, sending)):
        if wrapped is not raised and wrapped.__cause__ is None:
            wrapped.__cause__ = raised
        word = fault.word(wrapped, sending.phase)
        is_plain = word in {"not_sent", "no_answer"}
        assert is_plain == (kind.__name__ in SAYS_NO_MORE[sending.phase]), word

    told = as_httpx(raised, sending)
    after = isinstance(told, httpx.ReadError | httpx.ReadTimeout)
    assert after is left


def _caused_by(raised: Exception) -> Exception:
    ended = Ended()
    ended.__cause__ = raised
    return ended


@pytest.mark.parametrize("method", METHODS)
async def test_a_client_that_writes_past_the_gate_makes_doubts(wire: Wire, method: str):
    async with raw_server(answer_all) as server:
        await wire.exchange(request_to(server, method), within=PLENTY)
        assert wire._transport is not None
        wire._transport._session._request_class = aiohttp.ClientRequest
        answer = await wire.exchange(request_to(server, method), within=PLENTY)
        assert (answer.phase, answer.status) == (Phase.LEFT, None)
