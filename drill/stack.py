"""The servers that a drill runs on, each a real process that can be killed and started again."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import Runtime, TelemetryConfig

from ascertain import telemetry
from starter.postgres import EmbeddedPostgres
from starter.temporal import TemporalServer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@dataclass(frozen=True, slots=True)
class Stack:
    """What runs. What it acknowledged outlives a kill.

    Attributes:
        folder: Data and logs.
    """

    temporal: TemporalServer
    postgres: EmbeddedPostgres
    folder: Path


def run_folder(prefix: str) -> Path:
    """A new folder for one run; whoever runs removes it once nothing in it is of interest."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(0o711)  # as root, PostgreSQL runs as somebody else and must get to its data
    return folder


@asynccontextmanager
async def servers(folder: Path) -> AsyncGenerator[Stack]:
    """Start Temporal and PostgreSQL; stop them at the end.

    Raises:
        SetupError: One of them cannot run here; the message names its log.
    """
    stack = Stack(
        TemporalServer(folder / "temporal"), EmbeddedPostgres(folder / "postgres"), folder
    )
    async with AsyncExitStack() as closing:
        for server in (stack.temporal, stack.postgres):
            closing.push_async_callback(server.stop)
        await asyncio.gather(stack.temporal.start(), stack.postgres.start())
        yield stack


async def connect(temporal: TemporalServer) -> TemporalClient:
    """A client of the server as services have it."""
    return await TemporalClient.connect(
        temporal.address,
        namespace=temporal.namespace,
        data_converter=pydantic_data_converter,
        interceptors=[telemetry.interceptor()],
        runtime=_quiet(),
    )


@cache
def _quiet() -> Runtime:
    """The SDK writes to standard output when a server is gone, and here servers are meant to go."""
    return Runtime(telemetry=TelemetryConfig(logging=None))
