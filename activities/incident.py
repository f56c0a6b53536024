"""What the steps of an incident do, each safe to be done again after a kill."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from temporalio import activity

from activities.heartbeat import beating
from ascertain.contracts import names
from ascertain.contracts.effect import UNRESOLVED, State
from ascertain.contracts.gate import GateChange
from ascertain.contracts.incident import (
    GateOrder,
    Reconciled,
    ReconcileOrder,
    SnapshotOrder,
    SnapshotTaken,
)
from ascertain.contracts.snapshot import Scope
from ascertain.errors import InvalidSettings, NotFound
from ascertain.ports import EffectFilter
from ascertain.snapshot.taking import take

if TYPE_CHECKING:
    from pathlib import Path

    from activities.serving import Serving
    from ascertain.client import Client
    from ascertain.contracts.effect import EffectRow
    from ascertain.contracts.gate import Gate
    from ascertain.ports import Tasks

LOOK_EVERY_S = 0.5
MOST_ROWS = 100_000
MOST_TASKS = 1_000_000
# What moves by itself once it was asked for; the rest waits for a person or for the outside.
IN_DOUBT = frozenset({State.IN_FLIGHT, State.UNKNOWN})


@dataclass(frozen=True, slots=True)
class IncidentSteps:
    """The activities of an incident.

    Attributes:
        tasks: For effects whose workflow is gone.
        directory: Where snapshots are written; made if it is missing.
    """

    serving: Serving
    client: Client
    tasks: Tasks
    directory: Path

    @activity.defn(name=names.INCIDENT_PAUSE)
    async def pause(self, order: GateOrder) -> str:
        """Close the gate, and wait until no attempt of the partition can send any more."""
        async with beating():
            gate = await self._set_gate(order, paused=True)
            while flying := await self._sending(order.partition):
                activity.heartbeat(len(flying))
                await asyncio.sleep(LOOK_EVERY_S)
            since = f"{gate.since:%Y-%m-%d %H:%M:%S} UTC"
            return (
                f"paused since {since} by {gate.by}; drained: no attempt could send any more then"
            )

    @activity.defn(name=names.INCIDENT_SNAPSHOT)
    async def snapshot(self, order: SnapshotOrder) -> SnapshotTaken:
        """Write what recovery can change into one archive.

        Raises:
            InvalidSettings: The directory cannot be made or written to; tried again until it can.
        """
        async with beating():
            try:
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                why = f"snapshots cannot be kept in {self.directory}: {error.strerror}"
                raise InvalidSettings(why) from error
            taken = await take(
                self.serving.ledger,
                self.client,
                Scope(partition=order.partition, unresolved=True),
                self.directory / f"{order.name}.zip",
                taken_at=datetime.now(UTC),
                on_progress=activity.heartbeat,
            )
            return SnapshotTaken(
                path=str(taken.path.absolute()),
                sha256=taken.sha256,
                worker=self.serving.identity,
                counts=taken.manifest.counts,
            )

    @activity.defn(name=names.INCIDENT_RECONCILE)
    async def reconcile(self, order: ReconcileOrder) -> Reconciled:
        """Have the outside asked for all that is unresolved, and wait until doubt is over or it is time."""
        async with beating():
            asked: set[str] = set()
            for row in await self._unresolved(order.partition):
                if row.state is not State.TAKEN_OVER and row.task_id not in asked:
                    asked.add(row.task_id)
                    await self._ask(row.task_id)
                    await asyncio.sleep(1 / order.rate)
            rows = await self._settled(order)
            standing = Counter(row.state for row in rows)
            return Reconciled(asked=len(asked), standing=dict(standing))

    @activity.defn(name=names.INCIDENT_RESUME)
    async def resume(self, order: GateOrder) -> str:
        """Open the gate and wake what it held, a few at a time; what is not woken looks by itself."""
        async with beating():
            await self._set_gate(order, paused=False)
            woken = 0
            query = (
                f"{names.TASK_STATE} = 'HELD' AND {names.TASK_PARTITION} = '{order.partition}'"
                " AND ExecutionStatus = 'Running'"
            )
            async for task in self.client.tasks(query, limit=MOST_TASKS):
                try:
                    await self.client.resume(task.id)
                except NotFound:  # over meanwhile
                    continue
                woken += 1
                await asyncio.sleep(1 / order.wake_rate)
            return f"resumed; {woken} held tasks were woken"

    async def _set_gate(self, order: GateOrder, *, paused: bool) -> Gate:
        change = GateChange(
            partition=order.partition,
            paused=paused,
            by=order.operator,
            reason=order.reason,
            request_id=order.request_id,
            ramp=None if paused else order.ramp,
        )
        return await self.serving.ledger.set_gate(change)

    async def _sending(self, partition: str) -> list[EffectRow]:
        which = EffectFilter(
            states=frozenset({State.IN_FLIGHT}), partition=partition, limit=MOST_ROWS
        )
        rows = await self.serving.ledger.effects(which)
        return [row for row in rows if row.now < row.lease_until]

    async def _unresolved(self, partition: str) -> list[EffectRow]:
        which = EffectFilter(states=UNRESOLVED, partition=partition, limit=MOST_ROWS)
        return list(await self.serving.ledger.effects(which))

    async def _settled(self, order: ReconcileOrder) -> list[EffectRow]:
        loop = asyncio.get_running_loop()
        until = loop.time() + order.settle_within.total_seconds()
        while True:
            rows = await self._unresolved(order.partition)
            doubted = [row for row in rows if row.state in IN_DOUBT]
            if not doubted or loop.time() > until:
                return rows
            await asyncio.sleep(LOOK_EVERY_S)

    async def _ask(self, task_id: str) -> None:
        try:
            await self.client.reconcile_now(task_id)
        except NotFound:
            await self.tasks.ascertain(task_id)
