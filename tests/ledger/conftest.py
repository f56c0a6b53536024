"""For each test a migrated database of its own, whose clock is the test's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from ascertain.ledger.model import ModelLedger
from ascertain.ledger.postgres import PostgresLedger, open_ledger
from ascertain.ports import Ledger
from starter.postgres import EmbeddedPostgres

T0 = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
# Both sides of a comparison then live in the same time, and no test has to sleep.
VIRTUAL = """
create schema drill;
create table drill.clock (at timestamptz not null);
insert into drill.clock values ('2026-01-01 12:00:00+00');
create or replace function ascertain.clock() returns timestamptz
language sql volatile as 'select at from drill.clock';
"""
# Copying a database per test would cost more than most tests do. Triggers refuse this to everybody else.
FORGET = """
set session_replication_role = replica;
delete from ascertain.effects;
delete from ascertain.audit_events;
delete from ascertain.gates;
delete from ascertain.gate_requests;
delete from ascertain.outages;
delete from ascertain.epochs;
delete from ascertain.archived_effects;
delete from ascertain.replay_items;
delete from ascertain.censuses;
update drill.clock set at = '2026-01-01 12:00:00+00';
set session_replication_role = origin;
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
async def timeless_database(postgres: EmbeddedPostgres, template: str) -> str:
    """The address of a migrated database with a clock that is set by hand."""
    url = await postgres.create_database("timeless", template=template)
    connection = await asyncpg.connect(url)
    await connection.execute(VIRTUAL)
    await connection.close()
    return url


@pytest.fixture
async def admin(timeless_database: str) -> AsyncIterator[asyncpg.Connection]:
    """A person with psql on that database, which is empty and stands at T0 again."""
    connection = await asyncpg.connect(timeless_database)
    await connection.execute(FORGET)
    yield connection
    await connection.close()


@pytest.fixture
def timeless(admin: asyncpg.Connection, timeless_database: str) -> str:
    """The address of that database, which is empty and stands at T0 again."""
    return timeless_database


@pytest.fixture
def clock(admin: asyncpg.Connection) -> Clock:
    return Clock(admin)


@pytest.fixture
async def ledger(timeless: str) -> AsyncIterator[PostgresLedger]:
    opened = await open_ledger(timeless)
    yield opened
    await opened.aclose()


@pytest.fixture(params=["store", "twin"])
def either(request: pytest.FixtureRequest, ledger: PostgresLedger, clock: Clock) -> Ledger:
    """The store, then its twin: what a ledger does, whichever it is."""
    return ledger if request.param == "store" else ModelLedger(clock)
