"""Ascertain where the process that submits is a worker too, so that its tasks start eagerly.

The server hands the first workflow task out in its answer to the start, if the same client asks for it
that polls the queue. Here that is this process.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from activities.serving import Serving
from ascertain import settings
from ascertain.ledger.postgres import open_ledger
from benchmarks import durable
from benchmarks.plan import Contender
from workers.registry import build_kinds
from workers.secret import ProcessSecrets
from workers.worker import Role, build_workers, identity

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from temporalio.client import Client as TemporalClient

    from benchmarks.cpu import Part, Process
    from benchmarks.side import Side

_TASK_QUEUE: Final = "eager"


@asynccontextmanager
async def eager(
    client: TemporalClient,
    folder: Path,
    outside: str,
    processes: Mapping[Part, Process],
    ledger_url: str,
) -> AsyncGenerator[Side]:
    """Serve in this process, and submit through the very client that polls."""
    kinds = build_kinds(settings.load(durable.deployment(folder, outside)), ProcessSecrets())
    ledger = await open_ledger(ledger_url)
    try:
        serving = Serving(ledger, kinds, identity())
        (worker,) = build_workers(client, serving, Role(), _TASK_QUEUE)
        async with worker:
            yield durable.submitting(
                Contender.EAGER, client, _TASK_QUEUE, processes, database=ledger_url
            )
    finally:
        await ledger.aclose()
        for kind in kinds.values():
            if kind.adapter is not None:
                await kind.adapter.aclose()
