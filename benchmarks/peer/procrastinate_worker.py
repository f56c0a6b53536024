"""A worker of Procrastinate: ``python -m benchmarks.peer.procrastinate_worker``."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import sys
from typing import Any, Final

from ascertain.adapters.wire import Wire
from benchmarks.call import call
from benchmarks.job import CLAIM, jobs
from benchmarks.peer.procrastinate import JOB, build
from benchmarks.peer.result import SETTLE_AND_TELL
from benchmarks.peer.worker import DATABASE, OUTSIDE
from benchmarks.ready import say_ready

# It does one job at a time unless told otherwise; as many as Temporal's workers do activities.
_CONCURRENCY: Final = 100
log = logging.getLogger("benchmarks.procrastinate")


async def main() -> None:
    """Serve until SIGTERM."""
    database, outside = os.environ[DATABASE], os.environ[OUTSIDE]
    application, wire = build(database), Wire()
    async with application.open_async(), jobs(database) as pool:

        async def create(reference: str) -> None:
            await pool.execute(CLAIM, reference)
            external_id = await call(wire, outside, reference)
            await pool.execute(SETTLE_AND_TELL, reference, external_id)

        application.task(name=JOB)(create)
        say_ready("procrastinate")
        await _supervised(application)
    await wire.aclose()


async def _supervised(application: Any) -> None:  # noqa: ANN401  # of a package that types do not see
    """Run it, and again when it ends because its session did, as whatever keeps services up would."""
    lost: Any = importlib.import_module("procrastinate.exceptions").ConnectorException
    while True:
        try:
            await application.run_worker_async(concurrency=_CONCURRENCY)
        except lost:
            log.warning("its session was ended; it is run again")
        else:
            return


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    asyncio.run(main())
