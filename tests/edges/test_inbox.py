"""A message is acted on once, in one transaction with what it makes the service do."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from ascertain import inbox
from ascertain.errors import Conflict, InvalidTask, SetupError


async def receive(service, message_id="m-1", **more):
    async with service.connection.transaction():
        return await inbox.once(service.connection, message_id, **more)


async def test_a_message_is_new_once(service):
    assert [await receive(service) for _ in range(3)] == [True, False, False]
    assert await receive(service, "m-2")
    assert await receive(service, consumer="billing")


async def test_what_is_rolled_back_was_not_received(service):
    rolled_back = service.connection.transaction()
    await rolled_back.start()
    assert await inbox.once(service.connection, "m-1")
    await rolled_back.rollback()
    assert await receive(service)


async def test_the_same_id_with_other_content_is_a_conflict(service):
    assert await receive(service, content={"a": 1, "b": [1.0]})
    assert not await receive(service, content={"b": [1], "a": 1})
    with pytest.raises(Conflict, match="first stands"):
        await receive(service, content={"a": 2})
    assert not await receive(service)


@pytest.mark.parametrize("commits", [True, False])
async def test_a_second_consumer_waits_for_what_becomes_of_the_first(service, commits):
    other = await asyncpg.connect(service.url)
    first = service.connection.transaction()
    await first.start()
    assert await inbox.once(service.connection, "m-1")

    async def second():
        async with other.transaction():
            return await inbox.once(other, "m-1")

    waiting = asyncio.create_task(second())
    pid = other.get_server_pid()
    watching = await asyncpg.connect(service.url)
    while not await watching.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid):
        await asyncio.sleep(0.01)
    await (first.commit() if commits else first.rollback())
    assert await waiting is not commits
    await other.close()
    await watching.close()


async def test_it_works_in_a_transaction_of_sqlalchemy(service):
    engine = create_async_engine(service.url.replace("postgresql://", "postgresql+asyncpg://"))
    for new in (True, False):
        async with engine.begin() as connection:
            assert await inbox.once(connection, "m-1", content={"a": 1}) is new
    await engine.dispose()


@pytest.mark.parametrize("message_id", ["", "a\nb", "x" * 256])
async def test_an_id_that_cannot_be_one_is_refused(service, message_id):
    with pytest.raises(InvalidTask, match="1 to 255"):
        await receive(service, message_id)


async def test_a_connection_without_a_transaction_is_refused(service):
    with pytest.raises(SetupError, match="in no transaction"):
        await inbox.once(service.connection, "m-1")
