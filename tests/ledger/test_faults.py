"""A ledger that does not answer is LedgerDown, at once or in time, and comes back by itself."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextvars import ContextVar
from datetime import timedelta
from itertools import count
from pathlib import Path

import asyncpg
import pytest

from ascertain.contracts.claim import Granted
from ascertain.contracts.effect import State
from ascertain.errors import InvalidSettings, LedgerDown
from ascertain.ledger.migration import check, migrate
from ascertain.ledger.postgres import PostgresLedger, open_ledger
from ascertain.ports import EffectFilter
from starter.postgres import EmbeddedPostgres
from tests.ledger.steps import granted, in_state, moved, request, settled, standing
from tests.lost_commit import lost_commit
from tests.waiting import wait_until

SECRET = "s3cret"
NUMBERS = count(1)


@pytest.fixture(scope="module")
async def hurt() -> AsyncIterator[EmbeddedPostgres]:
    """A server of these tests' own, to be hurt, with a migrated database to copy."""
    directory = Path(tempfile.mkdtemp(prefix="ascertain-hurt-"))
    async with EmbeddedPostgres(directory) as server:
        await migrate(await server.create_database("migrated"))
        yield server
        await server.kill()  # nothing of it is needed: spare the checkpoint of an orderly stop
    shutil.rmtree(directory)


@pytest.fixture
async def server(hurt: EmbeddedPostgres) -> EmbeddedPostgres:
    """That server, running again."""
    if not hurt.running:
        await hurt.start()
    return hurt


@pytest.fixture
async def url(server: EmbeddedPostgres) -> str:
    """The address of a fresh ledger on that server."""
    return await server.create_database(f"ledger_{next(NUMBERS)}", template="migrated")


@pytest.fixture
async def opened(url: str) -> AsyncIterator[PostgresLedger]:
    ledger = await open_ledger(url, connections=4, timeout_s=3, command_timeout_s=2)
    yield ledger
    await ledger.aclose()


async def backends(url: str) -> list[int]:
    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetch(
            "select pid from pg_stat_activity "
            "where application_name = 'ascertain' and datname = current_database()"
        )
        return [record["pid"] for record in found]
    finally:
        await connection.close()


async def refuses(ledger: PostgresLedger) -> bool:
    try:
        await ledger.inspect("ef1-3")
    except LedgerDown:
        return True
    return False


async def all_refuse(ledger: PostgresLedger) -> bool:
    """Whether none of the pool's connections leads to a backend that lives yet."""
    return all(await asyncio.gather(*(refuses(ledger) for _ in range(8))))


async def test_a_killed_server_is_ledger_down_and_the_same_pool_works_after_its_restart(
    server: EmbeddedPostgres, opened: PostgresLedger
) -> None:
    await asyncio.gather(*(in_state(opened, State.SETTLED, str(name)) for name in range(8)))
    await server.kill()
    await wait_until(
        lambda: all_refuse(opened)
    )  # a killed server's backends outlive it by a moment
    for _ in range(6):
        with pytest.raises(LedgerDown) as caught:
            await opened.claim(request("3"))
        assert str(server.port) in str(caught.value)
        assert caught.value.__cause__ is not None
    await server.start()
    await granted(opened, "new")
    assert (await standing(opened, "3")).lease_version == 1


async def test_a_server_killed_amid_many_claims_forgets_none_that_it_granted(
    server: EmbeddedPostgres, opened: PostgresLedger
) -> None:
    acknowledged: list[str] = []

    async def claim_on(worker: int) -> None:
        for number in range(10_000):
            name = f"{worker}-{number}"
            await granted(opened, name)
            acknowledged.append(name)

    async with asyncio.timeout(120):
        workers = [asyncio.create_task(claim_on(worker)) for worker in range(4)]
        await wait_until(lambda: len(acknowledged) > 200)
        await server.kill()
        ended = await asyncio.gather(*workers, return_exceptions=True)
    assert {type(error) for error in ended} == {LedgerDown}
    await server.start()
    rows = await opened.effects(
        EffectFilter(states=frozenset({State.IN_FLIGHT}), limit=len(acknowledged) + 100)
    )
    assert {f"ef1-{name}" for name in acknowledged} <= {row.effect_id for row in rows}


async def test_a_server_that_hangs_is_ledger_down_in_time_and_works_when_it_goes_on(
    server: EmbeddedPostgres, url: str, opened: PostgresLedger
) -> None:
    await granted(opened, "1")
    stopped = [server.pid, *await backends(url)]
    assert len(stopped) > 1
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(60):
            for _ in range(3):
                with pytest.raises(LedgerDown):
                    await opened.claim(request("2"))
            with pytest.raises(LedgerDown):
                await open_ledger(url, timeout_s=0.5)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    await granted(opened, "3")
    assert (await standing(opened, "1")).state is State.IN_FLIGHT


async def test_a_connection_that_hangs_is_replaced_at_once(url: str) -> None:
    ledger = await open_ledger(url, connections=1, timeout_s=10, command_timeout_s=1)
    (hung,) = await backends(url)
    os.kill(hung, signal.SIGSTOP)
    try:
        with pytest.raises(LedgerDown):
            await ledger.claim(request("1"))
        await granted(ledger, "2")
    finally:
        os.kill(hung, signal.SIGCONT)
        await ledger.aclose()


async def test_a_caller_who_is_cancelled_is_not_told_that_the_ledger_is_down(url: str) -> None:
    ledger = await open_ledger(url, connections=1, timeout_s=5, command_timeout_s=60)
    (hung,) = await backends(url)
    os.kill(hung, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await ledger.claim(request("1"))
    finally:
        os.kill(hung, signal.SIGCONT)
        await ledger.aclose()


async def test_a_session_that_the_server_ends_is_replaced(url: str, opened: PostgresLedger) -> None:
    lease = await granted(opened)
    connection = await asyncpg.connect(url)
    await connection.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
        "where application_name = 'ascertain' and datname = current_database()"
    )
    await connection.close()
    await moved(opened.record(lease, settled()))


async def test_a_lock_that_is_not_given_up_is_ledger_down_in_time(
    url: str, opened: PostgresLedger
) -> None:
    await in_state(opened, State.CLEAR)
    connection = await asyncpg.connect(url)
    async with connection.transaction():
        await connection.execute("select from ascertain.effects for update")
        with pytest.raises(LedgerDown):
            await opened.claim(request())
    await connection.close()
    await granted(opened)


async def test_a_claim_by_a_cancelled_caller_leaves_a_pool_that_works(
    url: str, opened: PostgresLedger
) -> None:
    await in_state(opened, State.CLEAR)
    connection = await asyncpg.connect(url)
    async with connection.transaction():
        await connection.execute("select from ascertain.effects for update")
        claims = [asyncio.create_task(opened.claim(request(owner=f"w/{n}"))) for n in range(4)]
        await wait_until(lambda: blocked(url, 4))
        for claim in claims:
            claim.cancel()
        ended = await asyncio.gather(*claims, return_exceptions=True)
    await connection.close()
    assert {type(error) for error in ended} == {asyncio.CancelledError}
    await asyncio.gather(*(granted(opened, f"{number}") for number in range(2, 10)))


async def blocked(url: str, count: int) -> bool:
    connection = await asyncpg.connect(url)
    try:
        return count == await connection.fetchval(
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' "
            "and datname = current_database()"
        )
    finally:
        await connection.close()


async def test_a_chunk_whose_commit_was_not_answered_is_granted_again_to_its_asker_alone(
    url: str, opened: PostgresLedger
) -> None:
    long = timedelta(minutes=10)
    asked = [request(name, owner="w", lease=long) for name in ("1", "2")]
    async with lost_commit(url):
        lost = asyncio.create_task(opened.claim_many(asked))
    with pytest.raises(LedgerDown):
        await lost
    others = [request(name, owner="other", lease=long) for name in ("1", "2")]
    assert await opened.claim_many(others) == [None, None]
    again = await opened.claim_many(asked)
    assert [type(told) for told in again] == [Granted, Granted]
    assert [len(await opened.audit(f"ef1-{name}")) for name in ("1", "2")] == [1, 1]


async def test_a_full_pool_is_ledger_down_in_time(url: str) -> None:
    ledger = await open_ledger(url, connections=1, timeout_s=2, command_timeout_s=60)
    await in_state(ledger, State.CLEAR)
    connection = await asyncpg.connect(url)
    async with connection.transaction():
        await connection.execute("select from ascertain.effects for update")
        first = asyncio.create_task(ledger.claim(request()))
        await wait_until(lambda: blocked(url, 1))
        with pytest.raises(LedgerDown):
            await ledger.claim(request("2"))
    await connection.close()
    await first
    await ledger.aclose()


async def test_a_refused_connection_says_where_and_not_the_password(free_port: int) -> None:
    url = f"postgresql://worker:{SECRET}@127.0.0.1:{free_port}/ledger"
    for attempt in (open_ledger(url), migrate(url), check(url)):
        with pytest.raises(LedgerDown) as caught:
            await attempt
        assert f"127.0.0.1:{free_port}/ledger does not answer" in str(caught.value)
        assert SECRET not in everything_said(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        "postgresql://postgres:{secret}@127.0.0.1:{port}/postgres",
        "postgresql://postgres:{password}@127.0.0.1:{port}/nowhere",
    ],
)
async def test_a_wrong_account_or_database_is_a_wrong_setting(
    postgres: EmbeddedPostgres, wrong: str
) -> None:
    password = postgres.url.split(":")[2].partition("@")[0]
    url = wrong.format(secret=SECRET, password=password, port=postgres.port)
    for attempt in (open_ledger(url), migrate(url), check(url)):
        with pytest.raises(InvalidSettings) as caught:
            await attempt
        for hidden in (SECRET, password):
            assert hidden not in everything_said(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://worker:{SECRET}/half@host:5432/ledger",
        f"postgresql://worker:{SECRET}@host:fivefour/ledger",
        f"mysql://worker:{SECRET}@host/ledger",
        f"worker:{SECRET}@host",
        f"postgresql://worker:{SECRET}@[host/ledger",
        f"postgresql://worker:{SECRET}@host/ledger?sslmode=nonsense",
    ],
)
async def test_an_address_that_cannot_be_read_is_not_shown(url: str) -> None:
    for attempt in (open_ledger(url), migrate(url)):
        with pytest.raises(InvalidSettings) as caught:
            await attempt
        assert SECRET not in everything_said(caught.value)


def everything_said(error: BaseException | None) -> str:
    """The error and whatever a traceback would show with it."""
    text = ""
    while error is not None:
        text += f"{error!r} {error}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return text


MARK: ContextVar[str] = ContextVar("mark", default="nobody")


class Contexts(logging.Handler):
    """In whose context each line is written."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(MARK.get())


async def test_what_a_pool_does_in_the_background_is_not_of_the_task_that_needed_a_connection(
    server: EmbeddedPostgres, url: str
) -> None:
    """It restores its last connection by itself, and says when it cannot."""
    contexts, log = Contexts(), logging.getLogger("asyncpg.pool")
    name = url.rsplit("/", 1)[1]
    log.addHandler(contexts)
    admin = await asyncpg.connect(server.url)
    MARK.set("task-1")
    ledger = await open_ledger(url, connections=1)
    MARK.set("nobody")
    try:
        await admin.execute(f"alter database {name} allow_connections false")
        await ended(admin, name)
        await wait_until(lambda: contexts.seen, what="a connection that cannot be restored")
        assert set(contexts.seen) == {"nobody"}
    finally:
        log.removeHandler(contexts)
        await admin.close()
        await ledger.aclose()


async def ended(admin: asyncpg.Connection, name: str) -> None:
    await admin.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1", name
    )
