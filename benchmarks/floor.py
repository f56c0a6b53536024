"""The floor: what the job costs without any durable task around it. It runs in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.call import call
from benchmarks.job import CLAIM, SETTLE, TABLE
from benchmarks.plan import Contender
from benchmarks.side import Side, one_by_one

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg

    from ascertain.adapters.wire import Wire
    from benchmarks.cpu import Part, Process


def bare_call(wire: Wire, outside: str, processes: Mapping[Part, Process]) -> Side:
    """The HTTP call alone."""

    async def do(task_id: str) -> None:
        await call(wire, outside, task_id)

    return Side(Contender.CALL, one_by_one(do), processes)


async def call_between_commits(
    wire: Wire,
    outside: str,
    pool: asyncpg.Pool[asyncpg.Record],
    database: str,
    processes: Mapping[Part, Process],
) -> Side:
    """The call after one durable commit and before another: the least that remembers it."""
    await pool.execute(TABLE)

    async def do(task_id: str) -> None:
        await pool.execute(CLAIM, task_id)
        await pool.execute(SETTLE, task_id, await call(wire, outside, task_id))

    return Side(Contender.CALL2, one_by_one(do), processes, database=database)
