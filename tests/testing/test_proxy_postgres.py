"""The proxy before a real PostgreSQL: a commit whose answer is lost is a commit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg
import pytest

from ascertain.testing.fault import DropReply, DropRequest
from ascertain.testing.proxy import FaultProxy

LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)


@pytest.fixture
async def proxy(database: str) -> AsyncIterator[FaultProxy]:
    target = urlsplit(database)
    assert target.hostname is not None
    assert target.port is not None
    async with FaultProxy(target.hostname, target.port, protocol="bytes") as running:
        yield running


@pytest.fixture
async def direct(database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database, ssl=False)
    await connection.execute("CREATE TABLE payments (effect_id text)")
    yield connection
    await connection.close()


@pytest.fixture
async def proxied(
    database: str, proxy: FaultProxy, direct: asyncpg.Connection
) -> AsyncIterator[asyncpg.Connection]:
    port = urlsplit(database).port
    url = database.replace(f":{port}/", f":{proxy.port}/")
    connection = await asyncpg.connect(url, ssl=False)
    yield connection
    connection.terminate()


async def paid(direct: asyncpg.Connection) -> list[str]:
    return [row["effect_id"] for row in await direct.fetch("SELECT effect_id FROM payments")]


async def test_a_commit_whose_answer_is_lost_is_a_commit(
    proxy: FaultProxy, direct: asyncpg.Connection, proxied: asyncpg.Connection
) -> None:
    proxy.inject(DropReply("reset"), match=b"COMMIT")
    transaction = proxied.transaction()
    await transaction.start()
    await proxied.execute("INSERT INTO payments VALUES ('eff-1')")
    assert await paid(direct) == []
    with pytest.raises(LOST):
        await transaction.commit()

    assert await paid(direct) == ["eff-1"]
    assert proxy.injected == {"drop_reply": 1}


async def test_a_statement_is_told_by_its_arguments(
    proxy: FaultProxy, direct: asyncpg.Connection, proxied: asyncpg.Connection
) -> None:
    proxy.inject(DropReply("close"), match=b"eff-2")
    await proxied.execute("INSERT INTO payments VALUES ($1)", "eff-1")
    with pytest.raises(LOST):
        await proxied.execute("INSERT INTO payments VALUES ($1)", "eff-2")

    assert await paid(direct) == ["eff-1", "eff-2"]


async def test_a_commit_that_never_arrived_is_none(
    proxy: FaultProxy, direct: asyncpg.Connection, proxied: asyncpg.Connection
) -> None:
    proxy.inject(DropRequest(), match=b"COMMIT")
    transaction = proxied.transaction()
    await transaction.start()
    await proxied.execute("INSERT INTO payments VALUES ('eff-1')")
    with pytest.raises(LOST):
        await transaction.commit()

    assert await paid(direct) == []
