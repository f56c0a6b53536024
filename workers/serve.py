"""One worker process from start to drained stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from activities.breaker import Breakers
from activities.serving import Serving
from ascertain import telemetry
from ascertain.connection import connect_temporal
from ascertain.contracts.secret import named_in
from ascertain.ledger.postgres import open_ledger
from ascertain.watch import Watch
from workers.ledger import refuse_another
from workers.metered import metered
from workers.namespace import ensure_search_attributes
from workers.registry import build_kinds, close
from workers.schedule import ensure_schedules
from workers.secret import ProcessSecrets
from workers.watched import HELD_UP, SERVICE, held_up, watched
from workers.worker import Role, build_workers, identity, queues_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ascertain.ledger.postgres import PostgresLedger
    from ascertain.ports import Kind
    from ascertain.settings import Settings

log = logging.getLogger("ascertain.worker")

# New objects, and collections of the younger ones, after which Python looks for garbage. A few chunks of a
# stream keep fewer objects at hand: those are no garbage, and go by themselves.
COLLECT_AFTER = (50_000, 10, 10)


def _unchanged(serving: Serving) -> Serving:
    return serving


async def serve(
    settings: Settings,
    role: Role,
    *,
    on_ready: Callable[[str], None] | None = None,
    dress: Callable[[Serving], Serving] = _unchanged,
) -> None:
    """Serve until SIGTERM or SIGINT, then take no new work, finish what is in hand, and return.

    Args:
        settings: The deployment.
        role: What this process does of it.
        on_ready: Called once with a line for people when it polls.
        dress: Wraps the ports before they are used; the fault drill puts its crash points here.

    Raises:
        TemporalDown: No Temporal server answers.
        LedgerDown: No ledger answers.
        WrongSchema: The ledger must be migrated first.
        InvalidSettings: The deployment file does not fit the adapters, ``OTEL_`` variables are wrong, or
            metrics cannot be served where they should be; the ledger's account lacks the worker's role; or
            others who serve the same task queues write to another ledger.
        MissingSecret: A kind that this process does names secrets that are not here.
    """
    telemetry.install(SERVICE)
    stop = stop_on_signals()
    secrets = ProcessSecrets()
    kinds = build_kinds(settings, secrets, role.queues)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, telemetry.shutdown)
        stack.push_async_callback(close, kinds)
        secrets.require(_named_secrets(settings, role, kinds))
        exposition = await watched(settings.worker, kinds, stack)
        client = await connect_temporal()
        await ensure_search_attributes(client)
        ledger = await open_ledger(
            settings.ledger_url, connections=settings.ledger.connections, role="ascertain_worker"
        )
        stack.push_async_callback(ledger.aclose)
        origin = await ledger.upkeep.origin()
        await refuse_another(client, settings, origin)
        # Only now: who is refused changes nothing of the deployment that it does not belong to.
        if role.orchestrate:
            await ensure_schedules(client, settings)
        serving = dress(_serving(settings, kinds, ledger, origin))
        workers = build_workers(client, serving, role, settings.task_queue, ledger.upkeep)
        stack.enter_context(Watch(HELD_UP, held_up(kinds)))
        _collect_less()
        for worker in workers:
            await stack.enter_async_context(worker)
        if exposition is not None:
            exposition.ready = True
        if on_ready is not None:
            on_ready(_ready_line(kinds, queues_of(role, kinds), client.namespace))
        await stop.wait()
        if exposition is not None:
            exposition.ready = False
        log.info("draining: no new work, what is in hand is finished")


def _serving(
    settings: Settings, kinds: Mapping[str, Kind], ledger: PostgresLedger, origin: str
) -> Serving:
    return Serving(
        metered(ledger),
        kinds,
        identity(),
        ledger.replays,
        Path(settings.snapshots),
        Breakers(settings.breakers),
        origin=origin,
    )


def _named_secrets(settings: Settings, role: Role, kinds: Mapping[str, Kind]) -> Iterator[str]:
    """Those of the kinds that the role does; inline effects are for those who run workflows."""
    for name, kind in kinds.items():
        if kind.adapter is not None and (role.orchestrate or kind.queue is not None):
            yield from named_in(settings.kinds[name].options)


def _collect_less() -> None:
    """Look for garbage less often, and never among what was loaded, which lives as long as the process.

    That search was a fifth of what a stream costs its worker.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM or SIGINT sets."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def _ready_line(kinds: Mapping[str, Kind], queues: tuple[str, ...], namespace: str) -> str:
    served = ", ".join(sorted(name for name, kind in kinds.items() if kind.adapter)) or "no kinds"
    also = f" and queues {', '.join(queues)}" if queues else ""
    return f"{identity()} serves {served} in namespace {namespace}{also}"
