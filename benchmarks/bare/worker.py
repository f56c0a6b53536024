"""A worker of the bare side: ``python -m benchmarks.bare.worker``."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Final

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from ascertain.adapters.wire import Wire
from benchmarks.bare.waiting import BareWaiting
from benchmarks.bare.workflow import CREATE, TASK_QUEUE, BareTask
from benchmarks.call import call
from benchmarks.ready import say_ready

OUTSIDE: Final = "BENCHMARK_OUTSIDE"


class Facts:
    """The activity: the call, with the same HTTP client as every other side."""

    def __init__(self, wire: Wire, url: str) -> None:
        self._wire = wire
        self._url = url

    @activity.defn(name=CREATE)
    async def create(self, reference: str) -> str:
        """Create the fact and give its id."""
        return await call(self._wire, self._url, reference)


async def main() -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    client = await Client.connect(
        os.environ["TEMPORAL_ADDRESS"], namespace=os.environ["TEMPORAL_NAMESPACE"]
    )
    wire = Wire()
    facts = Facts(wire, os.environ[OUTSIDE])
    worker = Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[BareTask, BareWaiting],
        activities=[facts.create],
    )
    async with worker:
        say_ready("bare")
        await stop.wait()
    await wire.aclose()


if __name__ == "__main__":
    asyncio.run(main())
