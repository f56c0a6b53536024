"""Where one HTTP message ends and the next begins: faults strike whole exchanges."""

from __future__ import annotations

import asyncio

import pytest

from ascertain.testing.fault import CutReply, Delay, DropReply, DropRequest
from ascertain.testing.outside import Outside
from ascertain.testing.proxy import FaultProxy
from tests.testing.raw_http import exchange, post
from tests.testing.raw_target import raw_target

BODY = b'{"reference": "inv-1"}'
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST_GET = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LAST_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@pytest.mark.parametrize(
    "reply",
    [
        OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3\r\nyes\r\n0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 20\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK,
    ],
)
@pytest.mark.parametrize("buffered", [False, True])
async def test_a_reply_ends_where_its_head_says_and_the_connection_goes_on(
    reply: bytes, *, buffered: bool
) -> None:
    async with (
        raw_target(replies=(reply, LAST_OK)) as target,
        FaultProxy("127.0.0.1", target.port) as proxy,
    ):
        if buffered:
            proxy.inject(Delay())
        answer = await exchange(proxy.port, GET + LAST_GET)

        assert answer.received == reply + LAST_OK
        assert target.received == [GET, LAST_GET]
        assert target.connections == 1


async def test_the_reply_to_a_head_request_has_no_body() -> None:
    head = b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"
    head_reply = b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"
    async with (
        raw_target(replies=(head_reply, LAST_OK)) as target,
        FaultProxy("127.0.0.1", target.port) as proxy,
    ):
        answer = await exchange(proxy.port, head + LAST_GET)

        assert answer.received == head_reply + LAST_OK


async def test_a_reply_without_a_length_ends_with_its_connection() -> None:
    reply = b"HTTP/1.1 200 OK\r\n\r\nuntil the end"
    async with (
        raw_target(replies=(reply,)) as target,
        FaultProxy("127.0.0.1", target.port) as proxy,
    ):
        proxy.inject(CutReply(keep_bytes=len(reply) - 4))
        cut = await exchange(proxy.port, GET)

        assert cut.received == reply[:-4]
    async with (
        raw_target(replies=(reply,)) as target,
        FaultProxy("127.0.0.1", target.port) as proxy,
    ):
        assert (await exchange(proxy.port, GET)).received == reply


async def test_a_reply_that_breaks_off_is_passed_on_as_far_as_it_came() -> None:
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"
    async with (
        raw_target(replies=(reply,)) as target,
        FaultProxy("127.0.0.1", target.port) as proxy,
    ):
        proxy.inject(DropReply())
        answer = await exchange(proxy.port, GET)

        assert (answer.received, answer.was_reset) == (reply, False)
        assert proxy.injected == {}


async def test_a_request_in_pieces_is_forwarded_only_when_it_is_whole(outside: Outside) -> None:
    async with FaultProxy("127.0.0.1", outside.port) as proxy:
        rule = proxy.inject(DropRequest(), match="inv-1")
        request = post(BODY)
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        for byte in request[:-1]:
            writer.write(bytes([byte]))
            await writer.drain()
        assert rule.fired == 0
        writer.write(request[-1:])

        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.transport.abort()
        assert rule.fired == 1
        assert outside.books.submits == []


async def test_a_chunked_request_is_one_request(outside: Outside) -> None:
    head, _, body = post(BODY).partition(b"\r\n\r\n")
    head = head.replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")
    chunked = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (9, body[:9], len(body) - 9, body[9:])
    async with FaultProxy("127.0.0.1", outside.port) as proxy:
        proxy.inject(DropReply("close"), match="POST")
        await exchange(proxy.port, head + b"\r\n\r\n" + chunked)

        assert len(outside.books.facts_of("inv-1")) == 1


async def test_the_second_of_two_requests_sent_at_once_meets_its_own_fault(
    outside: Outside,
) -> None:
    async with FaultProxy("127.0.0.1", outside.port) as proxy:
        proxy.inject(DropReply("close"), match="k-2")
        answer = await exchange(proxy.port, post(BODY, "k-1") + post(BODY, "k-2"))

        assert answer.received.count(b"HTTP/1.1 201") == 1
        assert len(outside.books.facts) == 2


async def test_a_client_that_waits_for_100_continue_is_told_to_go_on(outside: Outside) -> None:
    request = post(BODY).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n", 1)
    head, _, body = request.partition(b"\r\n\r\n")
    async with FaultProxy("127.0.0.1", outside.port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(head + b"\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        assert outside.books.submits == []
        writer.write(body)

        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201 ")
        writer.transport.abort()


async def test_a_connection_that_the_target_closed_while_idle_is_replaced() -> None:
    async with (
        raw_target(replies=(OK,)) as target,
        FaultProxy("127.0.0.1", target.port) as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(GET)
        await reader.readexactly(len(OK))
        writer.write(LAST_GET)
        await reader.read()
        writer.transport.abort()

        assert target.connections == 2


async def test_what_is_no_http_is_reset() -> None:
    async with (
        raw_target() as target,
        FaultProxy("127.0.0.1", target.port) as proxy,
    ):
        answer = await exchange(proxy.port, b"EHLO localhost\r\n\r\n")

        assert answer.was_reset
        assert target.connections == 0
