"""The proxy before a server of any other protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from ascertain.testing.fault import (
    BlackHole,
    CutReply,
    Delay,
    DropReply,
    DropRequest,
    HalfClose,
    OnReply,
    ReplyFault,
    Substitute,
)
from ascertain.testing.proxy import FaultProxy
from tests.testing.raw_target import raw_target


@dataclass
class Store:
    """Keeps each line, then says that it did."""

    lines: list[bytes] = field(default_factory=list)
    got: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready\n")
        while line := await reader.readline():
            async with self.got:
                self.lines.append(line.strip())
                self.got.notify_all()
            writer.write(b"250 kept " + line)

    async def wait_for(self, lines: int) -> None:
        async with asyncio.timeout(60), self.got:
            await self.got.wait_for(lambda: len(self.lines) >= lines)


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, line: str) -> bytes:
        self.writer.write(line.encode() + b"\n")
        return await self.reader.readline()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def proxy(store: Store) -> AsyncIterator[FaultProxy]:
    async with (
        raw_target(store.serve) as target,
        FaultProxy("127.0.0.1", target.port, protocol="bytes") as running,
    ):
        yield running


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    connected = await connect(proxy)
    yield connected
    connected.writer.transport.abort()


async def connect(proxy: FaultProxy) -> Client:
    client = Client(*await asyncio.open_connection("127.0.0.1", proxy.port))
    assert await client.reader.readline() == b"220 ready\n"
    return client


async def test_bytes_go_through_both_ways(store: Store, client: Client) -> None:
    assert await client.say("one") == b"250 kept one\n"
    assert await client.say("two") == b"250 kept two\n"
    assert store.lines == [b"one", b"two"]


async def test_a_dropped_reply_leaves_the_work_done(
    store: Store, proxy: FaultProxy, client: Client
) -> None:
    proxy.inject(DropReply("reset"), match="COMMIT", times=1)
    assert await client.say("insert") == b"250 kept insert\n"
    with pytest.raises(ConnectionResetError):
        await client.say("COMMIT")

    assert store.lines == [b"insert", b"COMMIT"]
    assert proxy.injected == {"drop_reply": 1}
    again = await connect(proxy)
    assert await again.say("COMMIT") == b"250 kept COMMIT\n"
    again.writer.transport.abort()


async def test_a_dropped_reply_can_end_in_a_close_or_in_silence(
    store: Store, proxy: FaultProxy, client: Client
) -> None:
    proxy.inject(DropReply("close"), match="one")
    proxy.inject(DropReply("silence"), match="two")
    assert await client.say("one") == b""
    other = await connect(proxy)
    silent = asyncio.create_task(other.say("two"))
    await proxy.wait_injected("drop_reply", 2)

    assert not silent.done()
    assert store.lines == [b"one", b"two"]
    other.writer.transport.abort()
    await asyncio.gather(silent, return_exceptions=True)


async def test_a_dropped_request_never_arrives(
    store: Store, proxy: FaultProxy, client: Client
) -> None:
    proxy.inject(DropRequest(), match="secret")
    with pytest.raises(ConnectionResetError):
        await client.say("secret")

    assert store.lines == []


async def test_after_a_black_hole_nothing_goes_either_way(
    store: Store, proxy: FaultProxy, client: Client
) -> None:
    proxy.inject(BlackHole(), match="one")
    silent = asyncio.create_task(client.say("one"))
    await proxy.wait_injected("black_hole")
    client.writer.write(b"two\n")
    other = await connect(proxy)
    assert await other.say("three") == b"250 kept three\n"

    assert store.lines == [b"three"]
    assert not silent.done()
    other.writer.transport.abort()
    client.writer.transport.abort()
    await asyncio.gather(silent, return_exceptions=True)


async def test_a_reply_is_cut_at_a_byte_also_over_several_pieces(
    proxy: FaultProxy, client: Client
) -> None:
    proxy.inject(CutReply(keep_bytes=20), match="one", times=1)
    assert await client.say("one") == b"250 kept one\n"
    assert await client.say("two") == b"250 kep"

    assert proxy.injected == {"cut_reply": 1}


async def test_after_a_half_close_requests_are_still_taken(
    proxy: FaultProxy, client: Client
) -> None:
    proxy.inject(HalfClose(keep_bytes=3), match="one")
    client.writer.write(b"one\n")
    assert await client.reader.read() == b"250"
    client.writer.write(b"two\n")
    await client.writer.drain()

    assert proxy.injected == {"half_close": 1}
    assert not client.writer.transport.is_closing()


async def test_a_delayed_reply_arrives_whole(proxy: FaultProxy, client: Client) -> None:
    proxy.inject(Delay(request_s=0.01, reply_s=0.01), times=1)

    assert await client.say("one") == b"250 kept one\n"
    assert proxy.injected == {"delay": 1}


async def test_a_delayed_request_has_not_arrived_yet(
    store: Store, proxy: FaultProxy, client: Client
) -> None:
    proxy.inject(Delay(request_s=3600))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.say("one"), 0.2)

    assert store.lines == []


async def test_a_delayed_reply_leaves_the_work_done(
    store: Store, proxy: FaultProxy, client: Client
) -> None:
    proxy.inject(Delay(reply_s=3600))
    late = asyncio.create_task(client.say("one"))
    await proxy.wait_injected("delay")

    assert store.lines == [b"one"]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(late, 0.1)


async def test_the_callback_runs_after_the_work(
    store: Store, proxy: FaultProxy, client: Client
) -> None:
    seen: list[tuple[bytes, list[bytes]]] = []

    async def ask(request: bytes) -> ReplyFault:
        seen.append((request, list(store.lines)))
        return DropReply("close")

    proxy.inject(OnReply(ask), match="one")
    assert await client.say("one") == b""
    assert seen == [(b"one\n", [b"one"])]
    assert proxy.injected == {"on_reply": 1, "drop_reply": 1}


async def test_all_replies_can_be_dropped_and_the_work_goes_on(
    store: Store, proxy: FaultProxy, client: Client
) -> None:
    await proxy.drop_replies("silence")
    silent = asyncio.create_task(client.say("one"))
    await store.wait_for(1)
    await proxy.wait_injected("drop_reply")
    assert not silent.done()
    await proxy.heal()

    other = await connect(proxy)
    assert await other.say("two") == b"250 kept two\n"
    other.writer.transport.abort()
    client.writer.transport.abort()
    await asyncio.gather(silent, return_exceptions=True)


async def test_a_reply_that_is_on_its_way_is_dropped_too() -> None:
    got, may_answer = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        got.set()
        await may_answer.wait()
        writer.write(b"250 kept\n")
        await reader.read()

    async with (
        raw_target(serve) as target,
        FaultProxy("127.0.0.1", target.port, protocol="bytes") as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"one\n")
        await got.wait()
        await proxy.drop_replies("close")
        may_answer.set()

        assert await reader.read() == b""
        writer.transport.abort()


async def test_a_cut_resets_what_is_open_and_lets_new_connections_in(
    proxy: FaultProxy, client: Client
) -> None:
    await proxy.cut()
    with pytest.raises(ConnectionResetError):
        await client.reader.readline()

    again = await connect(proxy)
    assert await again.say("one") == b"250 kept one\n"
    again.writer.transport.abort()


async def test_refusing_leaves_open_connections_alone_until_healed(
    proxy: FaultProxy, client: Client
) -> None:
    port = proxy.port
    await proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        await connect(proxy)
    assert await client.say("one") == b"250 kept one\n"
    await proxy.heal()

    assert proxy.port == port
    again = await connect(proxy)
    again.writer.transport.abort()


async def test_a_black_hole_command_swallows_everything(
    store: Store, proxy: FaultProxy, client: Client
) -> None:
    await proxy.black_hole()
    silent = asyncio.create_task(client.say("one"))
    await proxy.wait_injected("black_hole")

    assert store.lines == []
    assert not silent.done()
    client.writer.transport.abort()
    await asyncio.gather(silent, return_exceptions=True)


async def test_a_close_by_the_target_is_a_close_for_the_client() -> None:
    async with (
        raw_target(replies=(b"bye",)) as target,
        FaultProxy("127.0.0.1", target.port, protocol="bytes") as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"hello")
        assert await reader.read() == b"bye"
        writer.transport.abort()


async def test_the_end_of_the_clients_stream_reaches_the_target() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        everything = await reader.read()
        writer.write(b"%d bytes" % len(everything))
        await writer.drain()
        writer.write_eof()
        await reader.read()

    async with (
        raw_target(serve) as target,
        FaultProxy("127.0.0.1", target.port, protocol="bytes") as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"x" * 100_000)
        writer.write_eof()
        assert await reader.read() == b"100000 bytes"
        writer.transport.abort()


async def test_waiting_for_a_fault_that_does_not_come_ends(proxy: FaultProxy) -> None:
    with pytest.raises(TimeoutError, match="0 of 1 drop_reply"):
        await proxy.wait_injected("drop_reply", within_s=0.01)


async def test_a_piece_of_the_targets_reply_can_be_changed(
    store: Store, proxy: FaultProxy, client: Client
) -> None:
    proxy.inject(Substitute(lambda piece: piece.replace(b"kept", b"lost")), times=1)
    assert await client.say("one") == b"250 lost one\n"
    assert await client.reader.read() == b""
    assert store.lines == [b"one"]
