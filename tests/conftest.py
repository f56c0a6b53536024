from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from ascertain import telemetry
from ascertain.ledger.migration import migrate
from starter import process
from starter.postgres import EmbeddedPostgres
from starter.temporal import TemporalServer

# The same examples each time, however long one takes on a busy machine. ASCERTAIN_FUZZ draws others.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize="ASCERTAIN_FUZZ" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")

MIGRATED = "migrated"
_numbers = count(1)


@pytest.fixture
def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    return process.free_port()


@pytest.fixture
def server_directory() -> Generator[Path]:
    """A folder for one server. Not below tmp_path: as root, PostgreSQL's user could not get there."""
    directory = Path(tempfile.mkdtemp(prefix="ascertain-test-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
async def postgres() -> AsyncGenerator[EmbeddedPostgres]:
    """One PostgreSQL for the whole run. Tests that kill a server start their own."""
    directory = Path(tempfile.mkdtemp(prefix="ascertain-postgres-"))
    async with EmbeddedPostgres(directory) as server:
        yield server
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
async def template(postgres: EmbeddedPostgres) -> str:
    """The name of a database with the ledger's schema, to copy."""
    url = await postgres.create_database(MIGRATED)
    await migrate(url)
    return MIGRATED


@pytest.fixture
async def database(postgres: EmbeddedPostgres, template: str) -> AsyncGenerator[str]:
    """The URL of a fresh, migrated database for this test alone."""
    name = f"test_{next(_numbers)}"
    yield await postgres.create_database(name, template=template)
    await postgres.drop_database(name)


@pytest.fixture(scope="session")
async def temporal() -> AsyncGenerator[TemporalServer]:
    """One Temporal server for the whole run, in memory; give each test its own task queue."""
    directory = Path(tempfile.mkdtemp(prefix="ascertain-temporal-"))
    http_port = process.free_port()
    async with TemporalServer(directory, in_memory=True, http_port=http_port) as server:
        yield server
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
async def temporal_client(temporal: TemporalServer) -> Client:
    """A client of that server that speaks the contracts."""
    return await Client.connect(
        temporal.address, namespace=temporal.namespace, data_converter=pydantic_data_converter
    )


@pytest.fixture(scope="session")
def registry() -> Generator[CollectorRegistry]:
    """The metrics of this process; OpenTelemetry takes one provider for each."""
    made = CollectorRegistry()
    telemetry.measure("test", made)
    yield made
    provider = metrics.get_meter_provider()
    assert isinstance(provider, MeterProvider)
    provider.shutdown()
