"""Gates and outages, by the pure ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from ascertain.contracts.breaker import Doubt
from ascertain.contracts.effect import TERMINAL, State
from ascertain.contracts.gate import PartitionStanding
from ascertain.contracts.outage import Outage
from ascertain.ledger import gate as gates, write as writes
from ascertain.ledger.memory import Remembering

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ascertain.contracts.breaker import Trip
    from ascertain.contracts.claim import Paused
    from ascertain.contracts.effect import EffectRow
    from ascertain.contracts.gate import Gate, GateChange


class ModelGates(Remembering):
    """The part of ``ports.Ledger`` that is about partitions."""

    async def set_gate(self, change: GateChange) -> Gate:
        """See ``ports.Ledger.set_gate``."""
        memory = self._memory
        if change.request_id in memory.requests:
            partition, paused = memory.requests[change.request_id]
            gates.repeated(change, partition, paused=paused)
            known = memory.gates[partition]
            return known.model_copy(update={"already_applied": True})
        gate = gates.changed(memory.gates.get(change.partition), change, self._clock())
        self._memory = replace(
            memory,
            gates={**memory.gates, change.partition: gate},
            closed=memory.closed | ({change.partition} if change.paused else set()),
            requests={**memory.requests, change.request_id: (change.partition, change.paused)},
        )
        return gate

    async def trip(self, trip: Trip) -> Gate | None:
        """See ``ports.Ledger.trip``."""
        before = self._memory.gates.get(trip.partition)
        return self._set(gates.tripped(before, trip, self._clock()))

    async def judge_probes(self, partition: str) -> Gate | None:
        """See ``ports.Ledger.judge_probes``."""
        gate = self._memory.gates.get(partition)
        if gate is None:
            return None
        return self._set(gates.judged(gate, self._memory.rows, self._clock()))

    async def gates(self) -> Sequence[Gate]:
        """See ``ports.Ledger.gates``."""
        return [self._memory.gates[partition] for partition in sorted(self._memory.closed)]

    async def partitions(self) -> Sequence[PartitionStanding]:
        """See ``ports.Ledger.partitions``."""
        memory = self._memory
        still = [row for row in memory.rows.values() if row.state not in TERMINAL]
        known = sorted({*memory.closed, *(row.partition for row in still)})
        gates = {name: memory.gates[name] for name in memory.closed}
        return [_partition(name, gates.get(name), still) for name in known]

    async def doubts(self) -> Sequence[Doubt]:
        """See ``ports.Ledger.doubts``."""
        return _doubts(self._memory.rows.values(), self._clock())

    async def note_outage(self, partition: str, kind: str, reason: str) -> Outage:
        """See ``ports.Ledger.note_outage``."""
        memory = self._memory
        since = memory.outages.get((partition, kind), (self._clock(), ""))[0]
        told = {**memory.outages, (partition, kind): (since, writes.clean(reason))}
        self._memory = replace(memory, outages=told)
        return self._outage(partition, kind)

    async def end_outage(self, partition: str, kind: str) -> None:
        """See ``ports.Ledger.end_outage``."""
        left = {key: told for key, told in self._memory.outages.items() if key != (partition, kind)}
        self._memory = replace(self._memory, outages=left)

    async def outages(self) -> Sequence[Outage]:
        """See ``ports.Ledger.outages``."""
        known = [self._outage(*key) for key in sorted(self._memory.outages)]
        return [outage for outage in known if outage.waiting]

    def _outage(self, partition: str, kind: str) -> Outage:
        since, reason = self._memory.outages[partition, kind]
        waiting = sum(
            (row.partition, row.kind) == (partition, kind)
            and row.state in {State.UNKNOWN, State.ACCEPTED}
            for row in self._memory.rows.values()
        )
        return Outage(partition=partition, kind=kind, since=since, reason=reason, waiting=waiting)

    def _set(self, gate: Gate | None) -> Gate | None:
        if gate is not None:
            memory = self._memory
            known = {**memory.gates, gate.partition: gate}
            self._memory = replace(memory, gates=known, closed=memory.closed | {gate.partition})
        return gate

    def _closed_gate(self, partition: str, effect_id: str) -> Gate | None:
        """The first gate that stops the effect, also if it might let it through to probe."""
        known = (self._memory.gates.get(name) for name in ("*", partition))
        now = self._clock()
        return next((gate for gate in known if gate and gates.stops(gate, effect_id, now)), None)

    def _paused(self, partition: str, effect_id: str) -> Paused | None:
        """What the gate answers; None: it does not stop the effect, or lets it through to probe."""
        closed, now = self._closed_gate(partition, effect_id), self._clock()
        if closed is None:
            return None
        if closed.partition != "*" and self._set(gates.let_through(closed, effect_id, now)):
            return None
        return gates.paused(closed, effect_id, now)


def _partition(name: str, gate: Gate | None, still: Iterable[EffectRow]) -> PartitionStanding:
    """A partition with its gate and those of the open effects that are its own."""
    own = [row for row in still if row.partition == name]
    flying = [row.lease_until for row in own if row.state is State.IN_FLIGHT]
    return PartitionStanding(
        partition=name,
        gate=gate,
        in_flight=len(flying),
        sending_until=max(flying, default=None),
        states=dict(Counter(row.state for row in own)),
    )


def _doubts(rows: Iterable[EffectRow], now: datetime) -> list[Doubt]:
    """What is in doubt, by partition and kind."""
    ages: dict[tuple[str, str], list[timedelta]] = {}
    for row in rows:
        if row.state is State.UNKNOWN:
            age = max(now - row.state_since, timedelta(0))
            ages.setdefault((row.partition, row.kind), []).append(age)
    return [
        Doubt(partition=partition, kind=kind, count=len(known), oldest=max(known))
        for (partition, kind), known in sorted(ages.items())
    ]
