from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import asyncpg
import pytest
from temporalio.client import Client as TemporalClient

from ascertain.client import Client
from ascertain.ledger.migration import Schema, migrate
from ascertain.service.queue import Queue
from starter.postgres import EmbeddedPostgres

_numbers = count(1)


@dataclass
class Service:
    """A service with a database and a task queue of its own, which no worker polls."""

    url: str
    connection: asyncpg.Connection
    client: Client
    name: str

    def task(self, name: str, **changes: Any) -> dict[str, Any]:
        step = {"name": "note", "kind": "note.create", "input": {"text": name}}
        whole = {"task_id": self.id(name), "kind": "greeting", "partition": self.name}
        return {**whole, "steps": [step], **changes}

    def id(self, name: str) -> str:
        return f"{self.name}-{name}"

    async def started(self) -> set[str]:
        """The tasks that Temporal has of it, by name; visibility lags, so wait for what is expected."""
        query = f"TaskPartition = '{self.name}'"
        prefix = f"{self.name}-"
        return {
            found.id.removeprefix(prefix) async for found in self.client.tasks(query, limit=20_000)
        }

    async def put_raw(self, task_id: str, content: Any) -> None:
        """As a service in another language does it."""
        await self.connection.execute(
            "insert into ascertain.outbox_entries (task_id, content) values ($1, $2)",
            task_id,
            json.dumps(content),
        )

    async def entries(self) -> list[asyncpg.Record]:
        return await self.connection.fetch(
            "select * from ascertain.outbox_entries order by entry_id"
        )


@pytest.fixture(scope="session")
async def service_template(postgres: EmbeddedPostgres) -> str:
    """The name of a service's database, to copy."""
    await migrate(await postgres.create_database("service"), schema=Schema.SERVICE)
    return "service"


@pytest.fixture
async def service(
    postgres: EmbeddedPostgres, service_template: str, temporal_client: TemporalClient
) -> AsyncIterator[Service]:
    name = f"service{next(_numbers)}"
    url = await postgres.create_database(name, template=service_template)
    connection = await asyncpg.connect(url)
    await connection.execute("create table orders (number integer primary key)")
    yield Service(url, connection, Client(temporal_client, task_queue=name), name)
    await connection.close()
    await postgres.drop_database(name)


@pytest.fixture
async def queue(service: Service) -> AsyncIterator[Queue]:
    opened = await Queue.open(service.url)
    yield opened
    await opened.aclose()
