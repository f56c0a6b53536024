"""A table of claims: the least that remembers what was begun and what came of it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import asyncpg

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

TABLE: Final = """
create table job (
    id text primary key, state text not null, external_id text, at timestamptz not null default now()
)
"""
CLAIM: Final = "insert into job (id, state) values ($1, 'IN_FLIGHT')"
SETTLE: Final = "update job set state = 'SETTLED', external_id = $2 where id = $1"
# As many as a worker's ledger has.
_CONNECTIONS: Final = 8


@asynccontextmanager
async def jobs(database: str) -> AsyncGenerator[asyncpg.Pool[asyncpg.Record]]:
    """Connections to the database of such a table."""
    async with asyncpg.create_pool(
        database, min_size=1, max_size=_CONNECTIONS, ssl=False, reset=_leave_as_is
    ) as pool:
        yield pool


async def _leave_as_is(_: asyncpg.Connection[asyncpg.Record]) -> None:
    """As the ledger's sessions: asyncpg's own reset would be one more statement after each."""
