"""A relay as any other that dies at a chosen point: ``python -m tests.edges.struck_relay``."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta

from ascertain import telemetry
from ascertain.client import Client
from ascertain.connection import connect_temporal
from ascertain.service.queue import Queue
from starter.relay import Pace, Relay

POINTS = (
    *("before_take", "after_take", "before_start", "after_start", "between_starts"),
    *("before_mark", "after_mark", "before_set_aside", "after_set_aside"),
)


def struck(point: str) -> None:
    if os.environ["POINT"] == point:
        os.kill(os.getpid(), signal.SIGKILL)


class StruckQueue(Queue):
    async def take(self, limit, lease):
        struck("before_take")
        taken = await super().take(limit, lease)
        if taken:
            struck("after_take")
        return taken

    async def started(self, run_ids):
        struck("before_mark")
        await super().started(run_ids)
        struck("after_mark")

    async def set_aside(self, entry_id, reason):
        struck("before_set_aside")
        await super().set_aside(entry_id, reason)
        struck("after_set_aside")


class StruckClient(Client):
    starts = 0

    async def submit(self, task, **more):
        struck("before_start")
        submitted = await super().submit(task, **more)
        struck("after_start")
        self.starts += 1
        if self.starts == 3:
            struck("between_starts")
        return submitted


async def main() -> None:
    telemetry.install()
    queue = await StruckQueue.open(os.environ["ASCERTAIN_OUTBOX_URL"])
    client = StruckClient(await connect_temporal(), task_queue=os.environ["TASK_QUEUE"])
    pace = Pace(batch=int(os.environ["BATCH"]), lease=timedelta(seconds=1))
    relay = Relay(queue, client, pace)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await relay.run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main())
