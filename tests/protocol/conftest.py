from __future__ import annotations

import copy
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter

from ascertain import telemetry
from ascertain.client import Client
from ascertain.ledger.postgres import open_ledger
from ascertain.settings import FILE_VARIABLE, LEDGER_VARIABLE
from ascertain.testing.knob import Dedupe, Knobs
from ascertain.testing.outside import Outside
from tests.protocol.deployment import Deployment
from tests.protocol.kinds import kinds_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from pathlib import Path

    from starter.postgres import EmbeddedPostgres
    from starter.temporal import TemporalServer

TASK_TIMEOUT_S = 2
_numbers = count(1)


@pytest.fixture
async def temporal_client(temporal: TemporalServer) -> TemporalClient:
    """Of whichever server a test has; some have one of their own."""
    return await connected(temporal)


async def connected(temporal: TemporalServer) -> TemporalClient:
    """A client as services have it: it speaks the contracts and carries the trace."""
    return await TemporalClient.connect(
        temporal.address,
        namespace=temporal.namespace,
        data_converter=pydantic_data_converter,
        interceptors=[telemetry.interceptor()],
    )


@pytest.fixture
async def deployments(
    tmp_path,
    postgres: EmbeddedPostgres,
    template: str,
    temporal: TemporalServer,
    temporal_client: TemporalClient,
) -> AsyncGenerator[Callable[..., Awaitable[Deployment]]]:
    """Makes deployments, each with a ledger, an outside and a task queue of its own."""
    async with deploying(tmp_path, postgres, template, temporal, temporal_client) as make:
        yield make


@asynccontextmanager
async def deploying(
    place: Path,
    postgres: EmbeddedPostgres,
    template: str,
    temporal: TemporalServer,
    temporal_client: TemporalClient,
) -> AsyncGenerator[Callable[..., Awaitable[Deployment]]]:
    """The same for as long as it is entered, with everything in this folder."""
    made: list[Deployment] = []
    running = AsyncExitStack()

    async def make(
        *,
        policy: dict[str, Any] | None = None,
        without: tuple[str, ...] = (),
        **settings_of_deployment: Any,
    ) -> Deployment:
        name = f"protocol_{next(_numbers)}"
        folder = place / name
        folder.mkdir()
        url = await postgres.create_database(name, template=template)
        outside = await running.enter_async_context(Outside())
        keyed = await running.enter_async_context(Outside(Knobs(dedupe=Dedupe(by="key"))))
        settings = {
            "task_queue": name,
            "sweep_every": 0,
            "census_every": 0,
            **settings_of_deployment,
            "kinds": kinds_of(outside.url, keyed.url, copy.deepcopy(policy or {})),
        }
        deployment = Deployment(
            folder,
            client=Client(
                temporal_client, task_queue=name, task_timeout=timedelta(seconds=TASK_TIMEOUT_S)
            ),
            ledger=await open_ledger(url),
            environment={
                FILE_VARIABLE: str(folder / "ascertain.toml"),
                LEDGER_VARIABLE: url,
                "TEMPORAL_ADDRESS": temporal.address,
                "TEMPORAL_NAMESPACE": temporal.namespace,
            },
            outside=outside,
            keyed=keyed,
            settings=settings,
        )
        deployment.configure(without=without)
        made.append(deployment)
        return deployment

    async with running:
        yield make
        for deployment in made:
            await deployment.stop()
            await deployment.ledger.aclose()
            await postgres.drop_database(deployment.task_queue)
