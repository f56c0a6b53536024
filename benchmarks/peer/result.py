"""A settle that tells whoever waits for the job, and the session that hears it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from benchmarks.call import CallFailed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_CHANNEL: Final = "settled"
SETTLE_AND_TELL: Final = """
with settled as (
    update job set state = 'SETTLED', external_id = $2 where id = $1 returning id, external_id
)
select pg_notify('settled', json_build_array(id, external_id)::text) from settled
"""


class Results:
    """What became of jobs. PostgreSQL tells it once it is committed, so what is heard is durable."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._awaited: dict[str, asyncio.Future[str]] = {}
        self._session: asyncpg.Connection[asyncpg.Record] | None = None
        self._beginning = asyncio.Lock()

    async def listen(self) -> None:
        """Begin to hear; does nothing while the session lives."""
        async with self._beginning:
            if self._session is None or self._session.is_closed():
                self._session = await asyncpg.connect(self._database, ssl=False)
                self._session.add_termination_listener(self._ended)
                await self._session.add_listener(_CHANNEL, self._heard)

    def awaited(self, job_id: str) -> asyncio.Future[str]:
        """The external id, once the job is settled; asked for before it begins."""
        return self._awaited.setdefault(job_id, asyncio.get_running_loop().create_future())

    async def aclose(self) -> None:
        """End the session."""
        if self._session is not None:
            await self._session.close()

    def _heard(self, _session: Any, _pid: int, _channel: str, told: Any) -> None:  # noqa: ANN401  # as asyncpg has it
        job_id, external_id = json.loads(told)
        awaited = self._awaited.pop(job_id, None)
        if awaited is not None and not awaited.done():
            awaited.set_result(external_id)

    def _ended(self, _session: Any) -> None:  # noqa: ANN401  # as asyncpg has it
        for awaited in self._awaited.values():
            if not awaited.done():
                awaited.set_exception(CallFailed("the session that waited for results was ended"))
        self._awaited.clear()


@asynccontextmanager
async def listening(database: str) -> AsyncGenerator[Results]:
    """Hear of every job that is settled in this database."""
    results = Results(database)
    await results.listen()
    try:
        yield results
    finally:
        await results.aclose()
