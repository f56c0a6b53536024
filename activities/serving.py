"""What a worker process serves: its ledger, its kinds, its name."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from temporalio import activity

from activities.breaker import Breakers
from activities.outage import Outages
from ascertain.contracts.directive import RunQueued

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ascertain.ports import Adapter, Kind, Ledger
    from ascertain.recovery import ReplayBook

# Of work that another worker of the same task queue may know: a short call and its recording.
ELSEWHERE = timedelta(seconds=30)
ELSEWHERE_HEARTBEAT = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Unserved:
    """This process cannot do or ask anything about the kind; the effect waits where it stands."""

    reason: str


@dataclass(frozen=True, slots=True)
class Served:
    """A kind that this process can do, with the adapter that does it."""

    kind: Kind
    adapter: Adapter


@dataclass(frozen=True, slots=True)
class Serving:
    """Handed to every activity by the composition.

    Attributes:
        identity: Names this process in leases and in the audit trail.
        snapshots: The directory for the snapshots of incidents.
        replays: Where a replay's items stand; None where the ledger keeps none, as its twin does not.
        breakers: When gates close by themselves, and what this process has seen of the partitions.
        outages: What it knows of outsides that cannot be asked.
        origin: Tells the ledger from others, in the names of the workers; empty: it was not asked.
    """

    ledger: Ledger
    kinds: Mapping[str, Kind]
    identity: str
    replays: ReplayBook | None = None
    snapshots: Path = Path("snapshots")
    breakers: Breakers = field(default_factory=Breakers)
    outages: Outages = field(default_factory=Outages)
    origin: str = ""

    def find(self, name: str) -> Served | RunQueued | Unserved:
        """The kind as served here, or what the workflow should do instead.

        Called from inside an activity. An inline (local) one is sent to the kind's own queue, or, where
        the kind is not known, to the queue that this worker shares with others: one of them may know it.
        """
        kind = self.kinds.get(name)
        info = activity.info()
        if kind is None and info.is_local:
            return RunQueued(
                task_queue=info.task_queue,
                start_to_close=ELSEWHERE,
                heartbeat=ELSEWHERE_HEARTBEAT,
                reason=f"this worker does not know kind {name}; the others of its task queue are asked",
            )
        if kind is None:
            return Unserved(f"no worker here knows kind {name}; one that does must run")
        if kind.queue is not None and (info.is_local or info.task_queue != kind.queue):
            return RunQueued(
                task_queue=kind.queue,
                start_to_close=kind.semantics.max_duration + timedelta(seconds=30),
                heartbeat=kind.policy.heartbeat,
                reason=f"runs on task queue {kind.queue}",
            )
        if kind.adapter is None:
            return Unserved(
                f"this worker does not hold the adapter of kind {name}; one that does must run"
            )
        return Served(kind, kind.adapter)
