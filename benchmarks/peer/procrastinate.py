"""Procrastinate, a queue of jobs on PostgreSQL, with a table of claims in the job.

Its worker is a process of its own, for that is how its command runs one: the process that defers a job and
the one that does it meet in the database alone. It keeps no results of jobs, so the job's last commit tells
the one that waits.
"""

from __future__ import annotations

import asyncio
import importlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from benchmarks.call import CallFailed
from benchmarks.cpu import Part
from benchmarks.job import TABLE
from benchmarks.peer.result import listening
from benchmarks.peer.worker import DATABASE, OUTSIDE, start
from benchmarks.plan import Contender
from benchmarks.side import Side, one_by_one

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    import asyncpg

    from benchmarks.cpu import Process

JOB: Final = "create"
_WITHIN_S: Final = 120


def build(database: str) -> Any:  # noqa: ANN401  # of a package that types do not see
    """The application that both processes open, with every setting as it comes.

    More connections than the usual four would be found dead one by one, each later than the one before, after
    the counting of statements has ended them; its pool gives up after half a minute.
    """
    package: Any = importlib.import_module("procrastinate")
    return package.App(connector=package.PsycopgConnector(conninfo=database))


@asynccontextmanager
async def queued(
    folder: Path,
    outside: str,
    jobs: asyncpg.Pool[asyncpg.Record],
    database: str,
    processes: Mapping[Part, Process],
) -> AsyncGenerator[Side]:
    """Run its worker, and defer a job for each task.

    Args:
        folder: Of the run.
        outside: The address of the outside.
        jobs: For the table of claims.
        database: Where that table and its own are.
        processes: Of the client and the servers.
    """
    application = build(database)
    async with application.open_async(), listening(database) as results:
        await application.schema_manager.apply_schema_async()
        await jobs.execute(TABLE)
        environment = {OUTSIDE: outside, DATABASE: database}
        async with start("procrastinate", folder, environment) as work:

            async def do(task_id: str) -> None:
                await results.listen()
                awaited = results.awaited(task_id)
                await application.configure_task(JOB).defer_async(reference=task_id)
                async with asyncio.timeout(_WITHIN_S):
                    external_id = await awaited
                if external_id != f"fact-{task_id}":
                    raise CallFailed(f"{task_id} ended with {external_id}")

            processes = {**processes, Part.WORKER: work.process}
            yield Side(Contender.PROCRASTINATE, one_by_one(do), processes, database=database)
