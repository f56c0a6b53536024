"""The ledger's pure twin: the same operations over plain values, with a clock that is handed in.

It shows what the store must do, and an explorer can walk it: no method awaits anything, so each is
one atomic step, and the whole memory is one immutable value that can be kept, compared and put back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from typing_extensions import override

from ascertain.contracts.claim import Conflict, Granted, Moved, Stale, Taken
from ascertain.contracts.effect import TERMINAL, AuditEvent, EffectRow, Evidence, State
from ascertain.contracts.epoch import CLOCKS, Epoch
from ascertain.contracts.gate import Gate
from ascertain.contracts.outage import Outage
from ascertain.errors import NotFound
from ascertain.ledger import gate as gates, twin, write as writes
from ascertain.ledger.audit import chained
from ascertain.ledger.decision import answer, judge, told
from ascertain.ledger.row import as_restored
from ascertain.ledger.twin import Told
from ascertain.machine import Move
from ascertain.ports import Case, EffectFilter, Trail

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime, timedelta

    from ascertain.contracts.breaker import Doubt, Trip
    from ascertain.contracts.claim import (
        ChunkAnswer,
        ClaimAnswer,
        ClaimRequest,
        Lease,
        Paused,
        Verdict,
        Written,
    )
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.epoch import EpochRequest
    from ascertain.contracts.gate import GateChange, PartitionStanding
    from ascertain.contracts.outcome import Outcome, Refused, Settled
    from ascertain.ledger.write import Write
    from ascertain.ports import Ledger, Page


@dataclass(frozen=True, slots=True)
class Memory:
    """All that a ledger remembers. Never changed in place.

    Attributes:
        rows: By effect_id; ``now`` is the time of the last move.
        trails: By effect_id, oldest event first.
        gates: By partition.
        closed: Partitions whose gate was ever closed.
        requests: Partition by request id.
        outages: Since when, and why, by partition and kind.
        epochs: The restores, in the order in which they were told.
    """

    rows: Mapping[str, EffectRow] = field(default_factory=dict[str, EffectRow])
    trails: Mapping[str, tuple[AuditEvent, ...]] = field(
        default_factory=dict[str, tuple[AuditEvent, ...]]
    )
    gates: Mapping[str, Gate] = field(default_factory=dict[str, Gate])
    closed: frozenset[str] = frozenset()
    requests: Mapping[str, str] = field(default_factory=dict[str, str])
    outages: Mapping[tuple[str, str], tuple[datetime, str]] = field(
        default_factory=dict[tuple[str, str], "tuple[datetime, str]"]
    )
    epochs: tuple[Epoch, ...] = ()

    @override
    def __hash__(self) -> int:
        """Coarse and cheap: equal memories have equal hashes."""
        rows = frozenset((row.effect_id, row.version, row.state) for row in self.rows.values())
        events = frozenset((name, len(trail)) for name, trail in self.trails.items())
        gates = frozenset((gate.partition, gate.paused) for gate in self.gates.values())
        return hash((rows, events, gates, frozenset(self.requests)))


class ModelLedger:
    """``ports.Ledger`` without I/O."""

    def __init__(self, clock: Callable[[], datetime], memory: Memory | None = None) -> None:
        """Begin with ``memory``, or with nothing; ``clock`` gives aware times that never run back."""
        self._clock = clock
        self._memory = memory or Memory()

    def snapshot(self) -> Memory:
        """Everything remembered, as one value."""
        return self._memory

    def restore(self, memory: Memory) -> None:
        """Go back to a snapshot."""
        self._memory = memory

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        """See ``ports.Ledger.claim``."""
        before = self._memory
        answered = self._claim(request)
        if isinstance(answered, Conflict):
            self._memory = before
        return answered

    def _claim(self, request: ClaimRequest) -> ClaimAnswer:
        now = self._clock()
        effect = request.effect
        row = self._memory.rows.get(effect.effect_id)
        partition = effect.partition if row is None else row.partition
        late = bool(self._late(effect.effect_id))
        since = twin.lost_since(self._memory.epochs, row, effect.begun_at)
        lost = since is not None
        closed = None
        if judge(row, None, request, now, late=late, lost=lost) in twin.DISPATCHING:
            closed = self._paused(partition, effect.effect_id)
        judgement = judge(row, closed, request, now, late=late, lost=lost)
        if judgement in twin.MOVING:
            if row is None:
                other = self._other_content(effect)
                if other is not None:
                    return Conflict(stored=other, offered=effect.task_fingerprint or "")
                live = self._live_in_step(effect)
                if live is not None:
                    return Conflict(stored=live.fingerprint, offered=request.fingerprint)
                after = twin.first(request, now, since)
            else:
                after = twin.claimed(row, judgement, request, now)
            self._keep(row, after, Told(twin.move_of(judgement), request.owner, after.evidence))
            row = after
        return answer(judgement, row and twin.read(row, now), closed, request)

    async def renew(self, lease: Lease, extend: timedelta) -> Written | Paused:
        """See ``ports.Ledger.renew``."""
        now = self._clock()
        row = self._memory.rows.get(lease.effect_id)
        if row is None:
            return Stale(None)
        if not twin.renewable(row, lease, extend, now):
            return self._refuse(row, lease, writes.json_of(writes.LATE_RENEWAL), None, now)
        closed = self._closed_gate(row.partition, row.effect_id)
        if closed is not None and row.effect_id not in closed.probing:
            stopped = self._paused(row.partition, row.effect_id)
            if stopped is not None:
                return stopped
        after = twin.renewed(row, extend, now)
        self._keep(row, after, Told(Move.RENEW, lease.owner, writes.RENEWED))
        return Moved(after)

    async def record(
        self, lease: Lease, outcome: Outcome, *, retry_in: timedelta | None = None
    ) -> Written:
        """See ``ports.Ledger.record``."""
        now = self._clock()
        row = self._memory.rows.get(lease.effect_id)
        if row is None:
            return Stale(None)
        write = writes.of_outcome(outcome, retry_in)
        if not twin.owned(row, lease):
            if any(
                twin.repeats(event, lease, write) for event in self._memory.trails[row.effect_id]
            ):
                return Moved(twin.read(row, now))
            return self._refuse(row, lease, writes.late(outcome), write.receipt, now)
        return self._write(row, write, lease.owner, now)

    async def claim_many(self, requests: Sequence[ClaimRequest]) -> Sequence[ChunkAnswer]:
        """See ``ports.Ledger.claim_many``."""
        in_order = sorted(requests, key=lambda request: request.effect.effect_id)
        known = {asked.effect.effect_id: self._known(asked.effect) for asked in in_order}
        now = self._clock()
        shut = {
            asked.effect.effect_id: self._closed_gate(
                asked.effect.partition, asked.effect.effect_id
            )
            for asked in in_order
        }
        answers: dict[str, ChunkAnswer] = {}
        for asked in in_order:
            name = asked.effect.effect_id
            closed = shut[name]
            begins = not known[name] and (closed is None or closed.rule is not None)
            granted = self._claim(asked) if begins or self._holds(asked) else None
            row = self._memory.rows.get(name)
            stopped = closed and gates.paused(closed, name, now)
            answers[name] = (
                granted
                if isinstance(granted, Granted)
                else told(row and twin.read(row, now), stopped, asked)
            )
        return [answers[request.effect.effect_id] for request in requests]

    def _holds(self, asked: ClaimRequest) -> bool:
        """Whether this was granted to the same asker already, who has not heard of it."""
        row = self._memory.rows.get(asked.effect.effect_id)
        if row is None or row.fingerprint != asked.fingerprint or row.state is not State.IN_FLIGHT:
            return False
        return row.lease_owner == asked.owner and row.lease_until > self._clock()

    def _known(self, effect: Effect) -> bool:
        """Whether a first claim of it finds that it, its step or its task stands already."""
        stands = effect.effect_id in self._memory.rows or self._live_in_step(effect) is not None
        return stands or self._other_content(effect) is not None

    async def record_many(
        self, outcomes: Sequence[tuple[Lease, Refused | Settled]]
    ) -> Collection[str]:
        """See ``ports.Ledger.record_many``."""
        before = self._memory
        written: set[str] = set()
        for lease, outcome in outcomes:
            row = self._memory.rows.get(lease.effect_id)
            if row is None or not twin.owned(row, lease):
                continue
            answer = await self.record(lease, outcome)
            if isinstance(answer, Taken):
                self._memory = before
                return frozenset()
            written.add(lease.effect_id)
        return written

    async def fence(self, effect_id: str, version: int, by: str) -> Written:
        """See ``ports.Ledger.fence``."""
        now = self._clock()
        row = self._memory.rows.get(effect_id)
        if row is not None and row.lease_until > now:
            return Stale(twin.read(row, now))
        write = writes.fence(row.lease_owner if row is not None else "")
        return self._converge(effect_id, version, write, by, now)

    async def converge(self, effect_id: str, version: int, verdict: Verdict, by: str) -> Written:
        """See ``ports.Ledger.converge``."""
        write = writes.of_finding(verdict)
        return self._converge(effect_id, version, write, by, self._clock())

    async def decide(
        self, effect_id: str, version: int, move: Move, verdict: Verdict, operator: str
    ) -> Written:
        """See ``ports.Ledger.decide``."""
        write = writes.of_decision(move, verdict)
        return self._converge(effect_id, version, write, operator, self._clock())

    async def amend(
        self, effect_id: str, version: int, denial: Verdict | None, verdict: Verdict, operator: str
    ) -> Written:
        """See ``ports.Ledger.amend``."""
        now, before = self._clock(), self._memory
        written: Written = Stale(None)
        for write in writes.of_amendment(denial, verdict):
            written = self._converge(effect_id, version, write, operator, now)
            if not isinstance(written, Moved):
                self._memory = before
                row = before.rows.get(effect_id)
                return Stale(row and twin.read(row, now))
            version = written.row.version
        return written

    async def withdraw(self, effect: Effect, fingerprint: str, by: str) -> Written | Conflict:
        """See ``ports.Ledger.withdraw``."""
        now, by = self._clock(), writes.clean(by)
        row = self._memory.rows.get(effect.effect_id)
        lost = twin.lost_since(self._memory.epochs, row, effect.begun_at) is not None
        if row is None and lost:
            return Stale(None)
        if row is None:
            live = self._live_in_step(effect)
            if live is not None:
                return Conflict(stored=live.fingerprint, offered=fingerprint)
            after = twin.never_claimed(effect, fingerprint, by, now)
        elif row.fingerprint != fingerprint:
            return Conflict(stored=row.fingerprint, offered=fingerprint)
        elif lost or row.state is not State.CLEAR or self._late(effect.effect_id):
            return Stale(twin.read(row, now))
        else:
            after = twin.withdrawn(row, now)
        self._keep(row, after, Told(Move.WITHDRAW, by, writes.WITHDRAWN))
        return Moved(after)

    async def inspect(self, effect_id: str) -> Case | None:
        """See ``ports.Ledger.inspect``."""
        row = self._memory.rows.get(effect_id)
        if row is None:
            return None
        row = as_restored(row, twin.raised_at(row, self._memory.epochs))
        return Case(twin.read(row, self._clock()), self._late(effect_id))

    async def proved(self, kind: str, external_ids: Sequence[str]) -> frozenset[str]:
        """See ``ports.Ledger.proved``."""
        return frozenset(name for name in external_ids if self._proved_by(kind, name))

    async def last_answers(self, effect_ids: Sequence[str]) -> Mapping[str, Evidence]:
        """See ``ports.Ledger.last_answers``."""
        return {
            event.effect_id: event.evidence
            for name in effect_ids
            for event in self._memory.trails.get(name, ())
            if event.evidence.source in {"answer", "phase", "lookup"}
        }

    async def effects(self, which: EffectFilter) -> Sequence[EffectRow]:
        """See ``ports.Ledger.effects``."""
        now = self._clock()
        fitting = [row for row in self._memory.rows.values() if twin.fits(row, which)]
        fitting.sort(key=lambda row: row.effect_id)
        fitting.sort(key=lambda row: row.state_since, reverse=True)
        return [twin.read(row, now) for row in fitting[: which.limit]]

    async def quiet(self, page: Page) -> Sequence[EffectRow]:
        """See ``ports.Ledger.quiet``."""
        now = self._clock()
        fitting = [row for row in self._memory.rows.values() if twin.is_quiet(row, page, now)]
        fitting.sort(key=lambda row: (row.state_since, row.effect_id))
        return [twin.read(row, now) for row in fitting[: page.limit]]

    async def audit(self, effect_id: str) -> Sequence[AuditEvent]:
        """See ``ports.Ledger.audit``."""
        return self._memory.trails.get(effect_id, ())

    async def trails(self, which: EffectFilter, *, after: str = "") -> Sequence[Trail]:
        """See ``ports.Ledger.trails``."""
        now = self._clock()
        known = self._memory.rows.values()
        fitting = [row for row in known if row.effect_id > after and twin.fits(row, which)]
        fitting.sort(key=lambda row: row.effect_id)
        return [
            Trail(twin.read(row, now), self._memory.trails.get(row.effect_id, ()))
            for row in fitting[: which.limit]
        ]

    async def set_gate(self, change: GateChange) -> Gate:
        """See ``ports.Ledger.set_gate``."""
        memory = self._memory
        if change.request_id in memory.requests:
            known = memory.gates[memory.requests[change.request_id]]
            return known.model_copy(update={"already_applied": True})
        gate = gates.changed(memory.gates.get(change.partition), change, self._clock())
        self._memory = replace(
            memory,
            gates={**memory.gates, change.partition: gate},
            closed=memory.closed | ({change.partition} if change.paused else set()),
            requests={**memory.requests, change.request_id: change.partition},
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

    async def doubts(self) -> Sequence[Doubt]:
        """See ``ports.Ledger.doubts``."""
        return twin.doubts(self._memory.rows.values(), self._clock())

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

    async def raise_epoch(self, request: EpochRequest) -> Epoch:
        """See ``ports.Ledger.raise_epoch``."""
        memory, now = self._memory, self._clock()
        known = next(
            (each for each in memory.epochs if each.request_id == request.request_id), None
        )
        if known is not None:
            return known.model_copy(update={"already_applied": True})
        soon = now + CLOCKS
        epoch = Epoch(
            since=request.since,
            raised_at=now,
            until=soon if request.until is None else max(request.until, soon),
            by=writes.clean(request.by),
            reason=writes.clean(request.reason),
            request_id=request.request_id,
        )
        self._memory = replace(memory, epochs=(*memory.epochs, epoch))
        return epoch

    async def gates(self) -> Sequence[Gate]:
        """See ``ports.Ledger.gates``."""
        return [self._memory.gates[partition] for partition in sorted(self._memory.closed)]

    async def partitions(self) -> Sequence[PartitionStanding]:
        """See ``ports.Ledger.partitions``."""
        memory = self._memory
        still = [row for row in memory.rows.values() if row.state not in TERMINAL]
        known = sorted({*memory.closed, *(row.partition for row in still)})
        gates = {name: memory.gates[name] for name in memory.closed}
        return [twin.partition(name, gates.get(name), still) for name in known]

    async def note(self, effect_id: str, by: str, evidence: Evidence) -> None:
        """See ``ports.Ledger.note``."""
        row = self._memory.rows.get(effect_id)
        if row is None:
            raise NotFound(f"{effect_id} was never claimed, so nothing can be noted of it")
        seen = Evidence.model_validate_json(writes.json_of(evidence))
        told = Told(writes.NOTE, writes.clean(by), seen)
        self._append(twin.event(row, row, told, self._clock()))

    async def archive(self, older_than: timedelta) -> int:
        """See ``ports.Upkeep.archive``: all pages at once; gives how many there were to archive."""
        memory, latest = self._memory, self._clock() - older_than
        probing = {name for gate in memory.gates.values() for name in gate.probing}
        due = {
            name: twin.archived(row)
            for name, row in memory.rows.items()
            if row.state is State.SETTLED and row.state_since <= latest and name not in probing
        }
        due = {name: row for name, row in due.items() if row != memory.rows[name]}
        self._memory = replace(memory, rows={**memory.rows, **due})
        return len(due)

    async def aclose(self) -> None:
        """See ``ports.Ledger.aclose``."""

    def _converge(
        self, effect_id: str, version: int, write: Write, by: str, now: datetime
    ) -> Written:
        by = writes.clean(by)
        row = self._memory.rows.get(effect_id)
        if row is None:
            return Stale(None)
        foreign = row.state is State.TAKEN_OVER and row.taken_by != by
        exists = write.move is Move.SUPERSEDE and bool(self._late(effect_id))
        legal = row.version == version and row.state in writes.starts(write.move)
        if not legal or foreign or exists:
            return Stale(twin.read(row, now))
        return self._write(row, write, by, now)

    def _write(self, row: EffectRow, write: Write, by: str, now: datetime) -> Written:
        if write.state is State.SETTLED and write.external_id is not None:
            other = self._proved_by(row.kind, write.external_id)
            if other is not None:
                return Taken(write.external_id, other, twin.read(row, now))
        after = twin.written(row, write, by, now)
        self._keep(row, after, Told(write.move, by, after.evidence, write.receipt))
        return Moved(after)

    def _refuse(
        self, row: EffectRow, lease: Lease, late: str, receipt: str | None, now: datetime
    ) -> Written:
        evidence = Evidence.model_validate_json(late)
        told = Told(writes.REFUSED_WRITE, lease.owner, evidence, receipt)
        identity = {"lease_version": lease.lease_version, "attempt": lease.attempt}
        self._append(twin.event(row, row, told, now).model_copy(update=identity))
        return Stale(twin.read(row, now))

    def _keep(self, before: EffectRow | None, after: EffectRow, told: Told) -> None:
        rows = {**self._memory.rows, after.effect_id: after}
        self._memory = replace(self._memory, rows=rows)
        self._append(twin.event(before, after, told, after.now))

    def _append(self, event: AuditEvent) -> None:
        trail = self._memory.trails.get(event.effect_id, ())
        event = event.model_copy(update={"seq": len(trail) + 1})
        digest = chained(trail[-1].hash if trail else "", event)
        trail = (*trail, event.model_copy(update={"hash": digest}))
        trails = {**self._memory.trails, event.effect_id: trail}
        self._memory = replace(self._memory, trails=trails)

    def _late(self, effect_id: str) -> tuple[AuditEvent, ...]:
        trail = self._memory.trails.get(effect_id, ())
        return tuple(
            event
            for event in trail
            if event.move == writes.REFUSED_WRITE and event.receipt is not None
        )

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

    def _other_content(self, effect: Effect) -> str | None:
        """What another effect of the task was claimed for, if that was other content."""
        if effect.task_fingerprint is None:
            return None
        for row in self._memory.rows.values():
            if row.task_id != effect.task_id or row.state is State.SUPERSEDED:
                continue
            if row.task_fingerprint not in {None, effect.task_fingerprint}:
                return row.task_fingerprint
        return None

    def _live_in_step(self, effect: Effect) -> EffectRow | None:
        return next(
            (
                row
                for row in self._memory.rows.values()
                if (row.task_id, row.step) == (effect.task_id, effect.step)
                and row.state is not State.SUPERSEDED
            ),
            None,
        )

    def _proved_by(self, kind: str, external_id: str) -> str | None:
        return next(
            (
                row.effect_id
                for row in self._memory.rows.values()
                if (row.kind, row.external_id) == (kind, external_id)
            ),
            None,
        )


if TYPE_CHECKING:
    _conforms: type[Ledger] = ModelLedger
