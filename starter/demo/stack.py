"""The servers of one run, each a real process, with their data and logs in the run's folder."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from ascertain.ledger.migration import migrate
from ascertain.ledger.postgres import open_ledger
from starter.demo.guarded import Guarded
from starter.demo.naive.application import Naive
from starter.demo.provider import LocalStripe
from starter.postgres import EmbeddedPostgres
from starter.process import free_port
from starter.temporal import TemporalServer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starter.demo.application import Application


@dataclass(frozen=True, slots=True)
class Stack:
    """What runs, and who makes the payments on it.

    Attributes:
        outside: Not through any proxy: the demonstration asks it at the end.
    """

    temporal: Client
    ui_url: str | None
    outside: LocalStripe
    application: Application


@asynccontextmanager
async def servers(folder: Path, *, naive: bool, web_ui: bool) -> AsyncGenerator[Stack]:
    """Start Temporal, localstripe and, for Ascertain, PostgreSQL; stop them at the end.

    Raises:
        SetupError: One of them cannot run here; the message names its log.
    """
    ui_port = free_port() if web_ui else None
    temporal = TemporalServer(folder / "temporal", ui_port=ui_port, in_memory=True)
    outside = LocalStripe(folder / "localstripe")
    postgres = None if naive else EmbeddedPostgres(folder / "postgres")
    async with AsyncExitStack() as stack:
        started = [server for server in (temporal, outside, postgres) if server is not None]
        for server in started:
            stack.push_async_callback(server.stop)
        async with asyncio.TaskGroup() as starting:
            for server in started:
                starting.create_task(server.start())
        client = await Client.connect(
            temporal.address, namespace=temporal.namespace, data_converter=pydantic_data_converter
        )
        application: Application
        if postgres is None:
            application = Naive(client, outside.url)
        else:
            await migrate(postgres.url)
            ledger = await open_ledger(postgres.url)
            stack.push_async_callback(ledger.aclose)
            application = Guarded(client, ledger, postgres.url, folder)
        yield Stack(client, temporal.ui_url, outside, application)
