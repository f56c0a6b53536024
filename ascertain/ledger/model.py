"""The ledger's pure twin: the same operations over plain values, with a clock that is handed in.

It shows what the store must do, and an explorer can walk it: no method awaits anything, so each is
one atomic step, and the whole memory is one immutable value that can be kept, compared and put back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ascertain.contracts.claim import Conflict, Granted, Moved, Stale, Taken
from ascertain.contracts.effect import AuditEvent, EffectRow, Evidence, State
from ascertain.contracts.epoch import CLOCKS, Epoch
from ascertain.errors import NotFound
from ascertain.ledger import epoch as epochs, gate as gates, twin, write as writes
from ascertain.ledger.audit import chained
from ascertain.ledger.decision import answer, judge, told
from ascertain.ledger.model_gate import ModelGates
from ascertain.ledger.model_reading import ModelReading
from ascertain.ledger.twin import Told
from ascertain.machine import Move

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime, timedelta

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
    from ascertain.contracts.outcome import Outcome, Refused, Settled
    from ascertain.ledger.write import Write
    from ascertain.ports import Ledger


class ModelLedger(ModelGates, ModelReading):
    """``ports.Ledger`` without I/O."""

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
        late = bool(self._memory.late(effect.effect_id))
        since = twin.lost_since(self._memory.epochs, row, effect.begun_at)
        lost = since is not None
        closed = None
        if judge(row, None, request, now, late=late, lost=lost) in twin.DISPATCHING:
            closed = self._paused(partition, effect.effect_id)
        judgement = judge(row, closed, request, now, late=late, lost=lost)
        if judgement in twin.MOVING:
            if row is None:
                other = self._memory.other_content(effect)
                if other is not None:
                    return Conflict(stored=other, offered=effect.task_fingerprint or "")
                live = self._memory.live_in_step(effect)
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
            stopped = None if closed is None else gates.paused(closed, name, now)
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
        stands = (
            effect.effect_id in self._memory.rows or self._memory.live_in_step(effect) is not None
        )
        return stands or self._memory.other_content(effect) is not None

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
            live = self._memory.live_in_step(effect)
            if live is not None:
                return Conflict(stored=live.fingerprint, offered=fingerprint)
            after = twin.never_claimed(effect, fingerprint, by, now)
        elif row.fingerprint != fingerprint:
            return Conflict(stored=row.fingerprint, offered=fingerprint)
        elif lost or row.state is not State.CLEAR or self._memory.late(effect.effect_id):
            return Stale(twin.read(row, now))
        else:
            after = twin.withdrawn(row, now)
        self._keep(row, after, Told(Move.WITHDRAW, by, writes.WITHDRAWN))
        return Moved(after)

    async def raise_epoch(self, request: EpochRequest) -> Epoch:
        """See ``ports.Ledger.raise_epoch``."""
        memory, now = self._memory, self._clock()
        known = next(
            (each for each in memory.epochs if each.request_id == request.request_id), None
        )
        if known is not None:
            return epochs.repeated(request, known)
        epochs.admit(request, now)
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
        exists = write.move is Move.SUPERSEDE and bool(self._memory.late(effect_id))
        legal = row.version == version and row.state in writes.starts(write.move)
        if not legal or foreign or exists:
            return Stale(twin.read(row, now))
        return self._write(row, write, by, now)

    def _write(self, row: EffectRow, write: Write, by: str, now: datetime) -> Written:
        if write.state is State.SETTLED and write.external_id is not None:
            other = self._memory.proved_by(row.kind, write.external_id)
            if other is not None:
                standing = twin.read(row, now)
                return Taken(write.external_id, other.effect_id, other.task_id, standing)
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


if TYPE_CHECKING:
    _conforms: type[Ledger] = ModelLedger
