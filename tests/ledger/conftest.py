"""A real PostgreSQL server, and for each test a migrated database of its own whose clock is the test's."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from ascertain.ledger.migration import migrate
from ascertain.ledger.postgres import PostgresLedger, open_ledger
from starter.postgres import EmbeddedPostgres

T0 = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
NUMBERS = itertools.count(1)
# Both sides of a comparison then live in the same time, and no test has to sleep.
VIRTUAL = """
create schema drill;
create table drill.clock (at timestamptz not null);
insert into drill.clock values ('2026-01-01 12:00:00+00');
create or replace function ascertain.clock() returns timestamptz
language sql volatile as 'select at from drill.clock';
"""


@dataclass
class Clock:
    """The ledger's clock, as the test sets it."""

    connection: asyncpg.Connection
    now: datetime = T0

    def __call__(self) -> datetime:
        return self.now

    async def set(self, now: datetime) -> None:
        self.now = now
        await self.connection.execute("update drill.clock set at = $1", now)

    async def advance(self, length: timedelta) -> None:
        await self.set(self.now + length)


@pytest.fixture(scope="session")
async def postgres() -> AsyncIterator[EmbeddedPostgres]:
    directory = Path(tempfile.mkdtemp(prefix="ascertain-", dir="/var/tmp"))  # noqa: S108  # PostgreSQL's user must reach it
    directory.chmod(0o711)
    try:
        async with EmbeddedPostgres(directory) as server:
            yield server
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
async def templates(postgres: EmbeddedPostgres) -> tuple[str, str]:
    """A migrated database, and one with a clock that is set by hand."""
    url = await postgres.create_database("migrated")
    await migrate(url)
    virtual = await postgres.create_database("virtual", template="migrated")
    connection = await asyncpg.connect(virtual)
    await connection.execute(VIRTUAL)
    await connection.close()
    return "migrated", "virtual"


@pytest.fixture
async def database(postgres: EmbeddedPostgres, templates: tuple[str, str]) -> AsyncIterator[str]:
    """The address of a migrated database that tells the real time."""
    name = f"real_{next(NUMBERS)}"
    yield await postgres.create_database(name, template=templates[0])
    await postgres.drop_database(name)


@pytest.fixture
async def timeless(postgres: EmbeddedPostgres, templates: tuple[str, str]) -> AsyncIterator[str]:
    """The address of a migrated database whose clock stands until a test moves it."""
    name = f"timeless_{next(NUMBERS)}"
    yield await postgres.create_database(name, template=templates[1])
    await postgres.drop_database(name)


@pytest.fixture
async def admin(timeless: str) -> AsyncIterator[asyncpg.Connection]:
    """A person with psql on the timeless database."""
    connection = await asyncpg.connect(timeless)
    yield connection
    await connection.close()


@pytest.fixture
async def clock(timeless: str) -> AsyncIterator[Clock]:
    connection = await asyncpg.connect(timeless)
    yield Clock(connection)
    await connection.close()


@pytest.fixture
async def ledger(timeless: str) -> AsyncIterator[PostgresLedger]:
    opened = await open_ledger(timeless)
    yield opened
    await opened.aclose()
