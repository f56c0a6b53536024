"""The proxy before an HTTP server: what the client sees, and what is true outside."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator

import httpx
import pytest

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
from ascertain.testing.knob import Answer, Drop, Knobs, Silence, SubmitKnobs
from ascertain.testing.outside import Outside
from ascertain.testing.proxy import FaultProxy
from tests.testing.raw_http import exchange, post

BODY = b'{"reference": "inv-1", "amount": 1999}'


@pytest.fixture
async def proxy(outside: Outside) -> AsyncIterator[FaultProxy]:
    async with FaultProxy("127.0.0.1", outside.port) as running:
        yield running


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=proxy.url, timeout=20) as running:
        yield running


async def pay(client: httpx.AsyncClient, key: str = "k-1", reference: str = "inv-1") -> int:
    reply = await client.post(
        "/facts", json={"reference": reference}, headers={"Idempotency-Key": key}
    )
    return reply.status_code


async def test_without_a_rule_everything_goes_through(
    outside: Outside, proxy: FaultProxy, client: httpx.AsyncClient
) -> None:
    assert await pay(client, "k-1") == 201
    assert await pay(client, "k-2", "inv-2") == 201
    assert (await client.get("/facts")).json()["has_more"] is False

    first, second = outside.books.submits
    assert first.peer_port == second.peer_port
    assert proxy.injected == {}


async def test_the_proxy_swallows_the_reply_after_the_fact_exists(
    outside: Outside, proxy: FaultProxy, client: httpx.AsyncClient
) -> None:
    proxy.inject(DropReply("reset"), match=rb"POST /facts", times=1)
    with pytest.raises(httpx.ReadError):
        await pay(client)

    assert len(outside.books.facts_of("inv-1")) == 1
    assert proxy.injected == {"drop_reply": 1}
    assert await pay(client) == 201


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_dropped_reply_gives_no_byte(outside: Outside, proxy: FaultProxy, how: str) -> None:
    proxy.inject(DropReply("reset" if how == "reset" else "close"))
    reply = await exchange(proxy.port, post(BODY))

    assert reply.received == b""
    assert reply.was_reset == (how == "reset")
    assert len(outside.books.facts_of("inv-1")) == 1


async def test_a_dropped_reply_can_be_silence(
    outside: Outside, proxy: FaultProxy, client: httpx.AsyncClient
) -> None:
    proxy.inject(DropReply("silence"))
    waiting = asyncio.create_task(pay(client))
    await proxy.wait_injected("drop_reply")

    assert len(outside.books.facts_of("inv-1")) == 1
    assert not waiting.done()
    waiting.cancel()


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_dropped_request_never_arrives(
    outside: Outside, proxy: FaultProxy, how: str
) -> None:
    proxy.inject(DropRequest("reset" if how == "reset" else "close"))
    reply = await exchange(proxy.port, post(BODY))

    assert reply.received == b""
    assert reply.was_reset == (how == "reset")
    assert outside.books.submits == []
    assert proxy.injected == {"drop_request": 1}


async def test_a_black_hole_forwards_nothing_and_says_nothing(
    outside: Outside, proxy: FaultProxy, client: httpx.AsyncClient
) -> None:
    proxy.inject(BlackHole(), times=1)
    waiting = asyncio.create_task(pay(client))
    await proxy.wait_injected("black_hole")

    assert outside.books.submits == []
    assert not waiting.done()
    waiting.cancel()


async def test_a_reply_can_be_cut_at_any_byte(outside: Outside, proxy: FaultProxy) -> None:
    last = post(BODY, "k-0").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    whole = await exchange(proxy.port, last)
    proxy.inject(CutReply(keep_bytes=0), match="k-1")
    proxy.inject(CutReply(keep_bytes=9), match="k-2")
    proxy.inject(CutReply(keep_bytes=20, how="reset"), match="k-3")

    cut = [await exchange(proxy.port, post(BODY, f"k-{number}")) for number in (1, 2, 3)]
    assert [reply.received for reply in cut] == [b"", whole.received[:9], whole.received[:20]]
    assert [reply.was_reset for reply in cut] == [False, False, True]
    assert len(outside.books.facts_of("inv-1")) == 4


async def test_after_a_half_close_the_client_may_go_on_sending(proxy: FaultProxy) -> None:
    proxy.inject(HalfClose(keep_bytes=8))

    def talk() -> bytes:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as client:
            client.sendall(post(BODY))
            received = b""
            while chunk := client.recv(4096):
                received += chunk
            for _ in range(3):
                client.sendall(b"still here")
            return received

    assert await asyncio.to_thread(talk) == b"HTTP/1.1"
    assert proxy.injected == {"half_close": 1}


async def test_a_delayed_request_has_not_arrived_yet(
    outside: Outside, proxy: FaultProxy, client: httpx.AsyncClient
) -> None:
    proxy.inject(Delay(request_s=3600), times=1)
    with pytest.raises(httpx.ReadTimeout):
        await client.post("/facts", content=BODY, timeout=httpx.Timeout(20, read=0.2))

    assert outside.books.submits == []


async def test_a_delayed_reply_is_late_for_an_impatient_client_but_the_fact_exists(
    outside: Outside, proxy: FaultProxy, client: httpx.AsyncClient
) -> None:
    proxy.inject(Delay(reply_s=3600), times=1)
    with pytest.raises(httpx.ReadTimeout):
        await client.post("/facts", content=BODY, timeout=httpx.Timeout(20, read=0.3))

    await outside.books.wait_for("fact", reference="inv-1")
    await proxy.wait_injected("delay")


async def test_a_delayed_reply_arrives_whole(proxy: FaultProxy, client: httpx.AsyncClient) -> None:
    proxy.inject(Delay(request_s=0.01, reply_s=0.01))

    assert await pay(client) == 201
    assert proxy.injected == {"delay": 1}


async def test_a_rule_strikes_only_the_requests_whose_bytes_fit(
    outside: Outside, proxy: FaultProxy, client: httpx.AsyncClient
) -> None:
    rule = proxy.inject(DropRequest(), match=rb"POST /facts.*inv-bad")
    assert await pay(client, "k-1", "inv-good") == 201
    with pytest.raises(httpx.ReadError):
        await pay(client, "k-2", "inv-bad")

    assert rule.fired == 1
    proxy.withdraw(rule)
    assert await pay(client, "k-2", "inv-bad") == 201
    assert [submit.key for submit in outside.books.submits] == ["k-1", "k-2"]


async def test_a_rule_strikes_the_next_n_that_fit(
    proxy: FaultProxy, client: httpx.AsyncClient
) -> None:
    proxy.inject(DropRequest(), match=lambda request: b"k-1" in request, times=2)
    outcomes = await outcomes_of(client, 4)

    assert outcomes == [False, False, True, True]


async def outcomes_of(client: httpx.AsyncClient, requests: int) -> list[bool]:
    outcomes: list[bool] = []
    for _ in range(requests):
        try:
            await pay(client)
            outcomes.append(True)
        except httpx.ReadError:
            outcomes.append(False)
    return outcomes


async def test_the_same_seed_gives_the_same_faults(outside: Outside) -> None:
    async def run(seed: int) -> list[bool]:
        async with (
            FaultProxy("127.0.0.1", outside.port, seed=seed) as proxy,
            httpx.AsyncClient(base_url=proxy.url) as client,
        ):
            rule = proxy.inject(DropReply(), probability=0.4)
            outcomes = await outcomes_of(client, 40)
            assert rule.fired == outcomes.count(False) == proxy.injected["drop_reply"]
            return outcomes

    first = await run(7)
    assert await run(7) == first
    assert await run(8) != first
    assert 0 < first.count(False) < 40


async def test_the_callback_runs_when_the_fact_exists_and_no_byte_went_back(
    outside: Outside, proxy: FaultProxy, client: httpx.AsyncClient
) -> None:
    asked: list[tuple[bool, int, bool]] = []

    async def ask(request: bytes) -> ReplyFault:
        asked.append((b"k-1" in request, len(outside.books.facts), sending.done()))
        return Pass()

    proxy.inject(OnReply(ask), match="POST")
    sending = asyncio.create_task(pay(client))

    assert await sending == 201
    assert asked == [(True, 1, False)]
    assert proxy.injected == {"on_reply": 1}


async def test_the_callback_decides_what_becomes_of_the_reply(
    outside: Outside, proxy: FaultProxy, client: httpx.AsyncClient
) -> None:
    async def ask(_: bytes) -> ReplyFault:
        return DropReply("close")

    proxy.inject(OnReply(ask))
    with pytest.raises(httpx.RemoteProtocolError):
        await pay(client)

    assert len(outside.books.facts) == 1
    assert proxy.injected == {"on_reply": 1, "drop_reply": 1}


async def test_a_worker_can_be_killed_between_the_fact_and_its_answer(
    outside: Outside, proxy: FaultProxy
) -> None:
    send = (
        "import sys, urllib.request as u;"
        f"u.urlopen(u.Request('{proxy.url}/facts', data={BODY!r})); print('answered')"
    )
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", send, stdout=asyncio.subprocess.PIPE
    )

    async def kill(_: bytes) -> ReplyFault:
        worker.kill()
        await worker.wait()
        return Pass()

    proxy.inject(OnReply(kill))
    output, _ = await worker.communicate()

    assert (worker.returncode, output) == (-signal.SIGKILL, b"")
    assert len(outside.books.facts_of("inv-1")) == 1


async def test_a_broken_callback_is_not_swallowed(outside: Outside) -> None:
    async def ask(_: bytes) -> ReplyFault:
        raise LookupError("no such worker")

    async def talk() -> None:
        async with FaultProxy("127.0.0.1", outside.port) as proxy:
            proxy.inject(OnReply(ask))
            assert (await exchange(proxy.port, post(BODY))).was_reset

    with pytest.raises(RuntimeError, match="a link of the fault proxy broke") as caught:
        await talk()
    assert isinstance(caught.value.__cause__, LookupError)


async def test_what_the_outside_breaks_off_is_broken_off_the_same_way(
    outside: Outside, proxy: FaultProxy
) -> None:
    outside.rules.knobs = Knobs(submit=SubmitKnobs(reply=Drop(how="reset")))
    reset = await exchange(proxy.port, post(BODY))
    outside.rules.knobs = Knobs(submit=SubmitKnobs(reply=Silence(seconds=0)))
    closed = await exchange(proxy.port, post(BODY))

    assert (reset.received, reset.was_reset) == (b"", True)
    assert (closed.received, closed.was_reset) == (b"", False)


async def test_a_reply_that_the_outside_lost_itself_is_not_counted_as_dropped(
    outside: Outside, proxy: FaultProxy
) -> None:
    outside.rules.knobs = Knobs(submit=SubmitKnobs(reply=Drop(how="reset")))
    proxy.inject(DropReply("close"))

    assert (await exchange(proxy.port, post(BODY))).was_reset
    assert proxy.injected == {}


async def test_an_outside_that_is_gone_looks_like_a_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = taken.getsockname()[1]
    async with FaultProxy("127.0.0.1", gone) as proxy:
        assert (await exchange(proxy.port, post(BODY))).was_reset


async def test_a_large_reply_goes_through_whole(
    outside: Outside, client: httpx.AsyncClient
) -> None:
    outside.rules.knobs = Knobs(submit=SubmitKnobs(reply=Answer(pad_bytes=5_000_000)))
    reply = await client.post("/facts", content=BODY)

    assert len(reply.json()["padding"]) == 5_000_000


async def test_many_clients_at_once_keep_their_own_replies(
    outside: Outside, proxy: FaultProxy, client: httpx.AsyncClient
) -> None:
    async def one(number: int) -> bool:
        reply = await client.post("/facts", json={"reference": f"inv-{number}"})
        return bool(reply.json()["reference"] == f"inv-{number}")

    assert all(await asyncio.gather(*(one(number) for number in range(200))))
    assert len(outside.books.facts) == 200


async def test_commands_hold_for_everything_until_healed(
    outside: Outside, proxy: FaultProxy, client: httpx.AsyncClient
) -> None:
    proxy.inject(DropRequest())
    await proxy.drop_replies("reset")
    with pytest.raises(httpx.ReadError):
        await pay(client)
    await proxy.refuse()
    with pytest.raises(httpx.ConnectError):
        await pay(client)
    await proxy.heal()

    assert await pay(client) == 201
    assert len(outside.books.facts) == 2


@pytest.mark.parametrize("forwarded", [True, False])
async def test_another_reply_can_stand_in_the_place_of_the_outsides(
    outside: Outside, proxy: FaultProxy, client: httpx.AsyncClient, forwarded: bool
) -> None:
    reply = b"HTTP/1.1 504 Late\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    proxy.inject(Substitute(reply, forwarded=forwarded), match=rb"POST", times=1)
    assert await pay(client) == 504
    assert len(outside.books.facts) == int(forwarded)
    assert await pay(client, "k-2", "inv-2") == 201
    assert proxy.injected["substitute"] == 1


async def test_the_outsides_own_reply_can_be_changed(
    outside: Outside, proxy: FaultProxy, client: httpx.AsyncClient
) -> None:
    changed = Substitute(lambda whole: whole.replace(b"inv-1", b"inv-2"))
    proxy.inject(changed, match=rb"POST", times=1)
    reply = await client.post("/facts", json={"reference": "inv-1"})
    assert (reply.status_code, reply.json()["reference"]) == (201, "inv-2")
    assert [fact.reference for fact in outside.books.facts] == ["inv-1"]


async def test_every_request_is_shown_before_its_fault(outside: Outside) -> None:
    seen: list[bytes] = []
    async with FaultProxy("127.0.0.1", outside.port, on_request=seen.append) as proxy:
        proxy.inject(DropRequest("reset"), times=1)
        async with httpx.AsyncClient(base_url=proxy.url) as client:
            with pytest.raises(httpx.TransportError):
                await client.get("/facts")
            await client.get("/facts")
    assert [request.split(b"\r\n")[0] for request in seen] == [b"GET /facts HTTP/1.1"] * 2
