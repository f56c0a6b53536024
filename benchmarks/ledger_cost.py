"""What a task costs the database: statements, syncs of its log, bytes in it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import asyncpg

from ascertain.ledger.statement import statement
from benchmarks.measure import run_tasks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from benchmarks.side import Side
    from starter.postgres import EmbeddedPostgres

# Server processes tell what they did when they end, and else some time later, into another side's count.
_END_SESSIONS: Final = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity
where backend_type = 'client backend' and pid <> pg_backend_pid()
"""
_COMMITS: Final = "select xact_commit from pg_stat_database where datname = current_database()"
_SYNCS: Final = """
select sum(fsyncs)::bigint from pg_stat_io where backend_type = 'client backend' and object = 'wal'
"""
_WRITTEN: Final = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
_STATEMENT: Final = ("LOG:  execute ", "LOG:  statement: ")
# When a session begins is chance, and no task's cost: what it is told then, and the pairs of statements with
# which asyncpg asks for types, once a session.
_BEGINNING: Final = "LOG:  statement: " + statement("commit_durably").splitlines()[0]
_TYPES: Final = "WITH RECURSIVE typeinfo_tree("
# What this session did itself must not show some time later.
_FLUSH: Final = "select pg_stat_force_next_flush()"
_FEW: Final = 3


@dataclass(frozen=True, slots=True)
class LedgerCost:
    """Of one task, sequentially.

    Attributes:
        statements: Sent to the database.
        commits: Of transactions, also those that only read.
        wal_syncs: Of its log that a session waited for.
        wal_bytes: Written to it, by whomever.
    """

    statements: float
    commits: float
    wal_syncs: float
    wal_bytes: float


async def count(
    side: Side, postgres: EmbeddedPostgres, tasks: int, numbers: Iterator[int]
) -> LedgerCost | None:
    """Count over a batch of so many tasks; None where the side has no database.

    A short batch is counted too and taken off, and with it what a new session costs.
    """
    if side.database is None:
        return None
    async with _logging(side.database) as watcher:
        seen = [await _seen(watcher, postgres)]
        for batch in (_FEW, _FEW + tasks):
            await run_tasks(side, batch, numbers)
            seen.append(await _seen(watcher, postgres))
    costs = [(second - first) - (first - start) for start, first, second in zip(*seen, strict=True)]
    statements, commits, syncs, written = (cost / (tasks * side.scale) for cost in costs)
    return LedgerCost(statements, commits, syncs, written)


@asynccontextmanager
async def _logging(database: str) -> AsyncGenerator[asyncpg.Connection[asyncpg.Record]]:
    """A session that sees every statement of the others in the server's log, and logs none of its own."""
    name = database.rpartition("/")[2]
    watcher = await asyncpg.connect(database, ssl=False)
    await watcher.execute(f"alter database {name} set log_statement = 'all'")
    try:
        yield watcher
    finally:
        await watcher.execute(f"alter database {name} reset log_statement")
        await watcher.close()


async def _seen(
    watcher: asyncpg.Connection[asyncpg.Record], postgres: EmbeddedPostgres
) -> tuple[int, int, int, int]:
    await watcher.execute(_END_SESSIONS)
    await watcher.execute(_FLUSH)
    text = postgres.log.read_text("utf-8", errors="replace")
    statements = sum(text.count(sign) for sign in _STATEMENT)
    statements -= text.count(_BEGINNING) + 2 * text.count(_TYPES)
    counted = [await watcher.fetchval(query) for query in (_COMMITS, _SYNCS, _WRITTEN)]
    return statements, counted[0], counted[1], counted[2]
