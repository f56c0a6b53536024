"""Gates and outages, in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ascertain.contracts import breaker
from ascertain.contracts.breaker import Doubt
from ascertain.contracts.outage import Outage
from ascertain.ledger import gate as gates, race, row as rows, write as writes
from ascertain.ledger.statement import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascertain.contracts.breaker import Trip
    from ascertain.contracts.gate import Gate, GateChange, PartitionStanding
    from ascertain.ledger.session import Session

_SET_GATE: Final = statement("set_gate")
_GATES: Final = statement("gates")
_PARTITIONS: Final = statement("partitions")
_TRIP_GATE: Final = statement("trip_gate")
_JUDGE_PROBES: Final = statement("judge_probes")
_DOUBTS: Final = statement("doubts")
_NOTE_OUTAGE: Final = statement("note_outage")
_END_OUTAGE: Final = statement("end_outage")
_OUTAGES: Final = statement("outages")


class PostgresGates:
    """The part of ``ports.Ledger`` that is about partitions."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def set_gate(self, change: GateChange) -> Gate:
        """See ``ports.Ledger.set_gate``."""
        values = (writes.clean(text) for text in (change.by, change.reason, change.request_id))
        by, reason, request_id = values

        async def changed() -> Gate | None:
            found = await self._session.fetch(
                _SET_GATE, change.partition, change.paused, by, reason, request_id, change.ramp
            )
            if not found:
                return None
            gate = dict(found[0])
            gates.repeated(change, gate.pop("used_partition"), paused=gate.pop("used_paused"))
            return rows.gate(gate)

        return await race.won(f"the gate of {change.partition}", changed)

    async def trip(self, trip: Trip) -> Gate | None:
        """See ``ports.Ledger.trip``."""
        found = await self._session.fetch(
            _TRIP_GATE,
            trip.partition,
            breaker.BY,
            writes.clean(trip.reason),
            trip.rule.value,
            trip.probes,
            trip.probe_after,
            trip.counted_for,
            trip.lasts,
        )
        return rows.gate(found[0]) if found else None

    async def judge_probes(self, partition: str) -> Gate | None:
        """See ``ports.Ledger.judge_probes``."""
        found = await self._session.fetch(_JUDGE_PROBES, partition, breaker.BY)
        return rows.gate(found[0]) if found else None

    async def gates(self) -> Sequence[Gate]:
        """See ``ports.Ledger.gates``."""
        return [rows.gate(record) for record in await self._session.fetch(_GATES)]

    async def partitions(self) -> Sequence[PartitionStanding]:
        """See ``ports.Ledger.partitions``."""
        return [rows.partition(record) for record in await self._session.fetch(_PARTITIONS)]

    async def doubts(self) -> Sequence[Doubt]:
        """See ``ports.Ledger.doubts``."""
        found = await self._session.fetch(_DOUBTS)
        return [Doubt.model_validate(dict(record)) for record in found]

    async def note_outage(self, partition: str, kind: str, reason: str) -> Outage:
        """See ``ports.Ledger.note_outage``."""
        found = await self._session.fetch(_NOTE_OUTAGE, partition, kind, writes.clean(reason))
        return Outage.model_validate(dict(found[0]))

    async def end_outage(self, partition: str, kind: str) -> None:
        """See ``ports.Ledger.end_outage``."""
        await self._session.fetch(_END_OUTAGE, partition, kind)

    async def outages(self) -> Sequence[Outage]:
        """See ``ports.Ledger.outages``."""
        return [Outage.model_validate(dict(found)) for found in await self._session.fetch(_OUTAGES)]
