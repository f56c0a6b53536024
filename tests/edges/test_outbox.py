"""A task that a commit asks for is started if, and only if, the commit is."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter

from ascertain import client as clients, outbox, telemetry
from ascertain.client import Client
from ascertain.errors import InvalidTask, SetupError, TemporalDown, UnknownKind
from ascertain.service.queue import POISON, SUSPECT
from starter.relay import Pace, Relay
from starter.temporal import TemporalServer
from tests.waiting import wait_until


@pytest.fixture
async def engine(service):
    engine = create_async_engine(service.url.replace("postgresql://", "postgresql+asyncpg://"))
    yield engine
    await engine.dispose()


async def order(connection, number):
    await connection.execute(text("insert into orders values (:n)"), {"n": number})


async def test_what_is_rolled_back_never_was(service, queue):
    rolled_back = service.connection.transaction()
    await rolled_back.start()
    await service.connection.execute("insert into orders values (1)")
    await outbox.put(service.connection, service.task("a"))
    await rolled_back.rollback()
    async with service.connection.transaction():
        await service.connection.execute("insert into orders values (2)")
        await outbox.put(service.connection, service.task("b"), message_id="m-2")
    relay = Relay(queue, service.client)
    await relay.drain()
    (entry,) = await service.entries()
    assert entry["task_id"] == service.id("b")
    assert entry["started_at"] is not None
    assert relay.tally.started == 1
    found = await service.client.temporal.get_workflow_handle(service.id("b")).describe()
    assert found.run_id == entry["run_id"]
    assert await found.memo_value("message_id") == "m-2"
    assert await service.client.ended(service.id("a")) == "forgotten"


async def test_a_transaction_of_sqlalchemy_carries_tasks_too(service, engine, queue):
    async with engine.begin() as connection:
        await order(connection, 1)
        await outbox.put(connection, service.task("core"))
    async with AsyncSession(engine) as session, session.begin():
        await order(session, 2)
        await outbox.put(session, service.task("orm"))
    async with engine.begin() as connection:
        sql, values = outbox.insert(service.task("own"))
        await connection.execute(text(sql), values)
    async with engine.connect() as connection:
        await outbox.put(connection, service.task("lost"))
        await connection.rollback()
    await Relay(queue, service.client).drain()
    await wait_until(lambda: _equal(service, {"core", "orm", "own"}), what="the three tasks")


async def _equal(service, names):
    return await service.started() == names


async def test_a_connection_without_a_transaction_is_refused(service):
    with pytest.raises(SetupError, match="in no transaction"):
        await outbox.put(service.connection, service.task("a"))
    assert await service.entries() == []


@pytest.mark.parametrize(
    "broken", [{"steps": []}, {"task_id": "a b"}, {"deadline": "2001-01-01T00:00:00Z"}]
)
async def test_the_door_is_at_the_put_and_leaves_the_transaction_usable(service, broken):
    async with service.connection.transaction():
        with pytest.raises(InvalidTask):
            await outbox.put(service.connection, service.task("a", **broken))
        step = {"name": "n", "kind": "k", "input": {"x": math.nan}}
        with pytest.raises(InvalidTask):
            await outbox.put(service.connection, service.task("a", steps=[step]))
        with pytest.raises(UnknownKind):
            await outbox.put(service.connection, service.task("a"), kinds={"mail.send"})
        await service.connection.execute("insert into orders values (1)")
    assert await service.entries() == []
    assert await service.connection.fetchval("select count(*) from orders") == 1


async def test_a_commit_behind_a_later_one_is_not_passed_over(service, queue):
    other = await _connect(service)
    late, rolled_back = other.transaction(), service.connection.transaction()
    await late.start()
    await outbox.put(other, service.task("late"))
    async with service.connection.transaction():
        await outbox.put(service.connection, service.task("early"))
    relay = Relay(queue, service.client)
    await relay.drain()
    assert relay.tally.started == 1
    await late.commit()
    await rolled_back.start()
    await outbox.put(service.connection, service.task("never"))
    await relay.drain()
    assert relay.tally.started == 2
    await rolled_back.rollback()
    lag = await queue.lag()
    assert (lag.waiting, lag.set_aside, await queue.count_started()) == (0, 0, 2)
    await other.close()


async def _connect(service):
    import asyncpg

    return await asyncpg.connect(service.url)


async def test_a_relay_is_told_of_a_commit(service, queue):
    relay = Relay(queue, service.client, Pace(poll=timedelta(hours=1)))
    stop = asyncio.Event()
    running = asyncio.create_task(relay.run(stop))
    for name in ("first", "second"):
        async with service.connection.transaction():
            await outbox.put(service.connection, service.task(name))
        await wait_until(lambda n=name: _runs(service, n), what=f"the start of {name}")
    stop.set()
    await running
    assert relay.tally.started == 2


async def _runs(service, name):
    return await service.client.ended(service.id(name)) is None


async def test_the_same_task_twice_is_one_and_other_content_is_set_aside(service, queue):
    async with service.connection.transaction():
        await outbox.put(service.connection, service.task("a"))
        await outbox.put(service.connection, service.task("a"))
    relay = Relay(queue, service.client, Pace(concurrency=1))
    await relay.drain()
    async with service.connection.transaction():
        await outbox.put(service.connection, service.task("a", kind="other"))
    await relay.drain()
    assert (relay.tally.started, relay.tally.duplicate, relay.tally.set_aside) == (1, 1, 1)
    (aside,) = await queue.aside(10)
    assert "was started before with other content" in aside.reason


async def test_what_cannot_be_started_waits_with_its_reason_and_holds_nothing_up(service, queue):
    await service.put_raw("x", {"no": "task"})
    await service.put_raw("y", "no object")
    await service.put_raw("z", service.task("z", steps=[{"name": "n", "kind": "un.known"}]))
    await service.put_raw("late", service.task("late", deadline="2001-01-01T00:00:00Z"))
    await service.put_raw("good", service.task("good"))
    serving = Client(service.client.temporal, task_queue=service.name, kinds={"note.create"})
    relay = Relay(queue, serving)
    await relay.drain()
    assert (relay.tally.started, relay.tally.set_aside) == (1, 4)
    reasons = [entry.reason for entry in await queue.aside(10)]
    expected = (
        "task_id",
        "no JSON object",
        "un.known",
        "deadline 2001-01-01T00:00:00+00:00 has passed",
    )
    for reason, words in zip(reasons, expected, strict=True):
        assert words in reason
    assert len(await queue.try_again(None)) == 4
    after = Relay(queue, service.client)
    await after.drain()
    assert (after.tally.started, after.tally.set_aside) == (1, 3)


async def test_an_entry_that_ends_every_relay_is_taken_alone_and_then_set_aside(service, queue):
    await service.put_raw("poison", service.task("poison"))
    for _ in range(SUSPECT):
        assert [entry.task_id for entry in await queue.take(10, timedelta(0))] == ["poison"]
    await service.put_raw("innocent", service.task("innocent"))
    assert [e.task_id for e in await queue.take(10, timedelta(hours=1))] == ["innocent"]
    for _ in range(SUSPECT, POISON):
        assert [e.task_id for e in await queue.take(10, timedelta(0))] == ["poison"]
    relay = Relay(queue, service.client)
    await relay.drain()
    (aside,) = await queue.aside(10)
    assert aside.reason == f"its relay ended {POISON} times with it in hand"
    assert relay.tally.started == 0


async def test_an_outage_of_temporal_costs_an_entry_nothing(
    service, queue, server_directory, monkeypatch
):
    for number in range(3):
        await service.put_raw(str(number), service.task(str(number)))
    monkeypatch.setattr(clients, "RPC_TIMEOUT", timedelta(milliseconds=200))
    async with TemporalServer(server_directory, in_memory=True) as server:
        nobody = await TemporalClient.connect(
            server.address, data_converter=pydantic_data_converter
        )
    with pytest.raises(TemporalDown):
        await Relay(queue, Client(nobody, task_queue=service.name)).drain()
    monkeypatch.undo()
    assert [(entry["takes"], entry["started_at"]) for entry in await service.entries()] == [
        (0, None)
    ] * 3
    relay = Relay(queue, service.client)
    await relay.drain()
    assert relay.tally.started == 3


async def test_the_trace_of_the_commit_is_the_trace_of_the_task(service, queue):
    from opentelemetry import trace

    telemetry.install()
    with trace.get_tracer("test").start_as_current_span("order") as span:
        async with service.connection.transaction():
            await outbox.put(service.connection, service.task("a"))
    seen = []

    class Looking(Client):
        async def submit(self, task, **more):
            seen.append(trace.get_current_span().get_span_context().trace_id)
            return await super().submit(task, **more)

    await Relay(queue, Looking(service.client.temporal, task_queue=service.name)).drain()
    assert seen == [span.get_span_context().trace_id]


async def test_old_started_entries_are_let_go_of_and_no_others(service, queue):
    for name in ("a", "b"):
        await service.put_raw(name, service.task(name))
    await Relay(queue, service.client).drain()
    await service.put_raw("c", service.task("c"))
    await service.connection.execute(
        "update ascertain.outbox_entries set started_at = started_at - interval '8 days' "
        "where task_id = 'a'"
    )
    assert await queue.prune(timedelta(days=7)) == 1
    assert [entry["task_id"] for entry in await service.entries()] == ["b", "c"]
