"""A message is acknowledged once its task is started, and never before."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter

from ascertain import client as clients
from ascertain.client import Client
from starter.consumer import Consumer
from starter.temporal import TemporalServer
from tests.waiting import wait_until


@dataclass
class Delivered:
    """A message as a broker gives it, and what was said of it."""

    body: bytes
    message_id: str | None = "m-1"
    redelivered: bool | None = None
    said: list[str] = field(default_factory=list)

    async def ack(self):
        self.said.append("ack")

    async def nack(self, *, requeue=True):
        self.said.append(f"nack requeue={requeue}")


@pytest.fixture
def consumer(service, registry):
    async def refuse(message, reason):
        message.said.append(f"refused: {reason}")

    return Consumer(service.client, refuse, queue=service.name)


def message(task) -> Delivered:
    return Delivered(json.dumps(task).encode())


async def test_a_started_task_is_acknowledged_and_so_is_its_repeat(service, consumer):
    for _ in range(2):
        first = message(service.task("a"))
        await consumer.handle(first)
        assert first.said == ["ack"]
    found = await service.client.temporal.get_workflow_handle(service.id("a")).describe()
    assert await found.memo_value("message_id") == "m-1"


@pytest.mark.parametrize("body", [b"no json", b"[]", b"\xff", b'{"task_id": "a b"}'])
async def test_what_can_never_be_a_task_is_kept_with_its_reason_before_it_is_acknowledged(
    consumer, body
):
    poison = Delivered(body)
    await consumer.handle(poison)
    assert poison.said[0].startswith("refused: ")
    assert poison.said[1:] == ["ack"]


async def test_other_content_under_a_known_id_is_refused(service, consumer):
    await consumer.handle(message(service.task("a")))
    other = message(service.task("a", kind="other"))
    await consumer.handle(other)
    assert "was started before with other content" in other.said[0]


async def test_while_temporal_is_down_nothing_is_acknowledged_and_a_stop_gives_it_back(
    service, consumer, server_directory, monkeypatch
):
    monkeypatch.setattr(clients, "RPC_TIMEOUT", timedelta(milliseconds=200))
    async with TemporalServer(server_directory, in_memory=True) as server:
        gone = await TemporalClient.connect(server.address, data_converter=pydantic_data_converter)
    consumer.client = Client(gone, task_queue=service.name)
    waiting = message(service.task("a"))
    handling = asyncio.create_task(consumer.handle(waiting))
    seen = []
    monkeypatch.setattr("starter.consumer.log.warning", lambda *words: seen.append(words))
    await wait_until(lambda: len(seen) > 1, what="two tries")
    assert waiting.said == []
    consumer.stop.set()
    await handling
    assert waiting.said == ["nack requeue=True"]


async def test_what_is_set_up_wrongly_costs_no_message_and_holds_none_up_once_it_is_mended(
    service, consumer, temporal, monkeypatch
):
    right = consumer.client
    nowhere = await TemporalClient.connect(temporal.address, namespace="not-made-yet")
    consumer.client = Client(nowhere, task_queue=service.name)
    seen = []
    monkeypatch.setattr("starter.consumer.log.warning", lambda *words: seen.append(words))
    waiting = message(service.task("a"))
    handling = asyncio.create_task(consumer.handle(waiting))
    await wait_until(lambda: len(seen) > 1 or handling.done(), what="two tries")
    assert waiting.said == []
    consumer.client = right
    await handling
    assert waiting.said == ["ack"]


async def test_every_message_is_counted_by_what_became_of_it(service, consumer, registry):
    def counted(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"queue": service.name, **labels})

    fates = ("started", "duplicate", "refused", "returned")
    assert [counted("ascertain_messages_total", fate=fate) for fate in fates] == [0, 0, 0, 0]
    await consumer.handle(message(service.task("a")))
    again = message(service.task("a"))
    again.redelivered = True
    await consumer.handle(again)
    await consumer.handle(Delivered(b"no json"))
    consumer.stop.set()
    await consumer.handle(message(service.task("b")))
    assert [counted("ascertain_messages_total", fate=fate) for fate in fates] == [1, 1, 1, 1]
    assert counted("ascertain_messages_redelivered_total") == 1
