"""DBOS, which needs no server but PostgreSQL: its workflows run in the process that starts them."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from benchmarks.call import call
from benchmarks.job import TABLE
from benchmarks.plan import Contender
from benchmarks.side import BULK_SCALE, Side, one_by_one

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    import asyncpg

    from ascertain.adapters.wire import Wire
    from benchmarks.cpu import Part, Process

_PACKAGE: Final = "dbos"
_CHUNK: Final = 50
# As many effects under way as a stream has.
_WINDOW: Final = 8
_CLAIM: Final = "insert into job (id, state) select unnest($1::text[]), 'IN_FLIGHT'"
_SETTLE: Final = """
update job set state = 'SETTLED', external_id = told.external_id
from unnest($1::text[], $2::text[]) as told (id, external_id) where job.id = told.id
"""


@asynccontextmanager
async def launched(
    wire: Wire, outside: str, jobs: asyncpg.Pool[asyncpg.Record], database: str
) -> AsyncGenerator[Dbos]:
    """Serve its workflows in this process.

    Args:
        wire: Sends the calls, as every side's.
        outside: The address of the outside.
        jobs: A table of claims, for the workflow of many effects.
        database: Where DBOS keeps its own tables.
    """
    package = importlib.import_module(_PACKAGE)
    await jobs.execute(TABLE)
    package.DBOS(
        config={
            "name": "benchmark",
            "system_database_url": database,
            "run_admin_server": False,
            "log_level": "ERROR",
        }
    )
    found = Dbos(package, wire, outside, jobs, database)
    package.DBOS.launch()
    try:
        yield found
    finally:
        package.DBOS.destroy()


class Dbos:
    """Its workflows: one per effect, and one per chunk of effects that claims and settles them in one go."""

    def __init__(
        self,
        package: Any,  # noqa: ANN401  # the module
        wire: Wire,
        outside: str,
        jobs: asyncpg.Pool[asyncpg.Record],
        database: str,
    ) -> None:
        self._package = package
        self._database = database

        async def create(reference: str) -> str:
            return await call(wire, outside, reference)

        async def create_all(references: list[str]) -> list[str]:
            await jobs.execute(_CLAIM, references)
            made = await asyncio.gather(*(call(wire, outside, each) for each in references))
            await jobs.execute(_SETTLE, references, made)
            return made

        self._one = self._workflow("one", create)
        self._many = self._workflow("many", create_all)

    def _workflow(self, name: str, work: Any) -> Any:  # noqa: ANN401  # decorated by the package
        step = self._package.DBOS.step(name=f"step_{name}")(work)

        async def run(argument: Any) -> Any:  # noqa: ANN401  # of the work
            return await step(argument)

        return self._package.DBOS.workflow(name=name)(run)

    def one_each(self, processes: Mapping[Part, Process]) -> Side:
        """One workflow per effect, whose one step is the call."""

        async def do(task_id: str) -> None:
            with self._package.SetWorkflowID(task_id):
                await self._one(task_id)

        return Side(Contender.DBOS, one_by_one(do), processes, database=self._database)

    def in_chunks(self, processes: Mapping[Part, Process]) -> Side:
        """One workflow per fifty effects, between one commit that claims them and one that settles them."""

        async def carry(task_ids: Sequence[str], _: int) -> Sequence[float]:
            chunks = {
                task_ids[start]: list(task_ids[start : start + _CHUNK])
                for start in range(0, len(task_ids), _CHUNK)
            }

            async def do(first: str) -> None:
                with self._package.SetWorkflowID(first):
                    await self._many(chunks[first])

            took = await one_by_one(do)(list(chunks), _WINDOW)
            return [took[number // _CHUNK] for number in range(len(task_ids))]

        return Side(Contender.DBOS50, carry, processes, database=self._database, scale=BULK_SCALE)
