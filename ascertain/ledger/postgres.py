"""The ledger in PostgreSQL: each operation is one statement, one round trip and one commit."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from ascertain.contracts import breaker
from ascertain.contracts.breaker import Doubt
from ascertain.contracts.claim import Conflict, Moved, Stale, Taken
from ascertain.contracts.effect import TERMINAL, Evidence
from ascertain.contracts.epoch import CLOCKS, Epoch
from ascertain.contracts.outage import Outage
from ascertain.errors import LedgerDown, NotFound
from ascertain.ledger import chunk, migration, row as rows, write as writes
from ascertain.ledger.decision import Judgement, answer, endless
from ascertain.ledger.replay import PostgresReplayBook
from ascertain.ledger.session import Session
from ascertain.ledger.statement import statement
from ascertain.ledger.upkeep import PostgresUpkeep
from ascertain.machine import Move
from ascertain.ports import Case, Trail

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import timedelta

    from ascertain.contracts.breaker import Trip
    from ascertain.contracts.claim import (
        ChunkAnswer,
        ClaimAnswer,
        ClaimRequest,
        Lease,
        Paused,
        Verdict,
        Written,
    )
    from ascertain.contracts.effect import AuditEvent, Effect, EffectRow
    from ascertain.contracts.epoch import EpochRequest
    from ascertain.contracts.gate import Gate, GateChange, PartitionStanding
    from ascertain.contracts.outcome import Outcome, Refused, Settled
    from ascertain.ledger.write import Write
    from ascertain.ports import EffectFilter, Ledger, Page

# A statement that lost a race against one that its snapshot does not show is asked again. Each time
# the other one has committed, so more than a few rounds mean that something else is wrong.
ROUNDS: Final = 5

_CLAIM: Final = statement("claim")
_RECORD: Final = statement("record")
_RENEW: Final = statement("renew")
_CONVERGE: Final = statement("converge")
_WITHDRAW: Final = statement("withdraw")
_INSPECT: Final = statement("inspect")
_ONE_EFFECT: Final = statement("one_effect")
_OPEN_EFFECTS: Final = statement("open_effects")
_TASK_EFFECTS: Final = statement("task_effects")
_ALL_EFFECTS: Final = statement("all_effects")
_OPEN_TRAILS: Final = statement("open_trails")
_ALL_TRAILS: Final = statement("all_trails")
_LAST_ANSWERS: Final = statement("last_answers")
_PROVED: Final = statement("proved")
_QUIET_EFFECTS: Final = statement("quiet_effects")
_PROVED_BY: Final = statement("proved_by")
_LIVE_IN_STEP: Final = statement("live_in_step")
_AUDIT: Final = statement("audit")
_NOTE: Final = statement("note")
_SET_GATE: Final = statement("set_gate")
_GATES: Final = statement("gates")
_PARTITIONS: Final = statement("partitions")
_TRIP_GATE: Final = statement("trip_gate")
_JUDGE_PROBES: Final = statement("judge_probes")
_DOUBTS: Final = statement("doubts")
_NOTE_OUTAGE: Final = statement("note_outage")
_END_OUTAGE: Final = statement("end_outage")
_OUTAGES: Final = statement("outages")
_RAISE_EPOCH: Final = statement("raise_epoch")

_WITHDRAWN: Final = writes.json_of(writes.WITHDRAWN)
_RENEWED: Final = writes.json_of(writes.RENEWED)
_LATE_RENEWAL: Final = writes.json_of(writes.LATE_RENEWAL)


async def open_ledger(
    url: str, *, connections: int = 8, timeout_s: float = 5, command_timeout_s: float = 5
) -> PostgresLedger:
    """Connect to a migrated ledger.

    Args:
        url: ``postgresql://...``.
        connections: Most connections of this process.
        timeout_s: For a new connection, and to wait for a free one.
        command_timeout_s: For one operation; after it, its outcome is not known.

    Raises:
        LedgerDown: Nobody answers there.
        WrongSchema: It must be migrated first; the message says how.
        InvalidSettings: The address, the account or the database's name is wrong.
    """
    session = await Session.open(
        url, connections=connections, timeout_s=timeout_s, command_timeout_s=command_timeout_s
    )
    try:
        await migration.check(session)
    except BaseException:
        await session.aclose()
        raise
    return PostgresLedger(session)


class PostgresLedger:
    """``ports.Ledger`` on PostgreSQL 15 or newer."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.replays = PostgresReplayBook(session)

    @property
    def upkeep(self) -> PostgresUpkeep:
        """What is asked of the whole ledger, on the same connections."""
        return PostgresUpkeep(self._session)

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        """See ``ports.Ledger.claim``."""
        values = _claim_values(request)
        for _ in range(ROUNDS):
            try:
                (record,) = await self._session.fetch(_CLAIM, *values)
            except asyncpg.UniqueViolationError as error:
                if error.constraint_name == "effects_one_content_per_task":
                    stored = error.detail or ""
                    return Conflict(stored=stored, offered=request.effect.task_fingerprint or "")
                if error.constraint_name == "effects_not_archived":  # in this very moment
                    continue
                if error.constraint_name != "effects_one_live_per_step":
                    raise
                live = await self._live_in_step(request.effect)
                if live is not None:
                    return Conflict(stored=live, offered=request.fingerprint)
                continue
            judgement = Judgement(record["answer"])
            if judgement is Judgement.PAUSED:
                closed = rows.paused(record, request.effect.effect_id)
                return answer(judgement, None, closed, request)
            if record["effect_id"] is not None:
                return answer(judgement, rows.effect_row(record), None, request)
        raise _restless(request.effect.effect_id)

    async def renew(self, lease: Lease, extend: timedelta) -> Written | Paused:
        """See ``ports.Ledger.renew``."""
        found = await self._told(
            _RENEW,
            lease.effect_id,
            lease.lease_version,
            lease.owner,
            lease.attempt,
            extend,
            _RENEWED,
            _LATE_RENEWAL,
        )
        if found and found[0]["gate"] is not None:
            return rows.paused(found[0], lease.effect_id)
        return _written(found)

    async def record(
        self, lease: Lease, outcome: Outcome, *, retry_in: timedelta | None = None
    ) -> Written:
        """See ``ports.Ledger.record``."""
        write = writes.of_outcome(outcome, retry_in)
        return await self._write(
            write,
            _RECORD,
            lease.effect_id,
            lease.lease_version,
            lease.owner,
            lease.attempt,
            write.move.value,
            write.state.value,
            write.evidence,
            write.receipt,
            write.external_id,
            write.happened_at,
            write.error_class,
            write.job_id,
            write.retry_in,
            writes.late(outcome),
            # What the outside accepted is never sent again: losing that would lose the job's id.
            write.move is Move.ACCEPT,
        )

    async def fence(self, effect_id: str, version: int, by: str) -> Written:
        """See ``ports.Ledger.fence``."""
        return await self._converge(effect_id, version, writes.fence(), by)

    async def converge(self, effect_id: str, version: int, verdict: Verdict, by: str) -> Written:
        """See ``ports.Ledger.converge``."""
        return await self._converge(effect_id, version, writes.of_finding(verdict), by)

    async def decide(
        self, effect_id: str, version: int, move: Move, verdict: Verdict, operator: str
    ) -> Written:
        """See ``ports.Ledger.decide``."""
        write = writes.of_decision(move, verdict)
        return await self._converge(effect_id, version, write, operator)

    async def amend(
        self, effect_id: str, version: int, denial: Verdict | None, verdict: Verdict, operator: str
    ) -> Written:
        """See ``ports.Ledger.amend``."""
        moves = writes.of_amendment(denial, verdict)
        written: Written = Stale(None)
        async with self._session.transaction() as transaction:
            for write in moves:
                values = _converging(effect_id, version, write, operator)
                written = _written(await transaction.fetch(_CONVERGE, *values))
                if not isinstance(written, Moved):
                    transaction.undo()
                    break
                version = written.row.version
        return await self._standing(effect_id) if isinstance(written, Stale) else written

    async def _standing(self, effect_id: str) -> Stale:
        found = await self._session.fetch(_ONE_EFFECT, effect_id)
        return Stale(rows.effect_row(found[0]) if found else None)

    async def withdraw(self, effect: Effect, fingerprint: str, by: str) -> Written | Conflict:
        """See ``ports.Ledger.withdraw``."""
        for _ in range(ROUNDS):
            try:
                found = await self._session.fetch(
                    _WITHDRAW,
                    effect.effect_id,
                    fingerprint,
                    writes.clean(by),
                    _WITHDRAWN,
                    effect.task_id,
                    effect.message_id,
                    effect.step,
                    effect.revision,
                    effect.kind,
                    effect.partition,
                    effect.begun_at,
                )
            except asyncpg.UniqueViolationError as error:
                if error.constraint_name == "effects_not_archived":  # in this very moment
                    continue
                if error.constraint_name != "effects_one_live_per_step":
                    raise
                live = await self._live_in_step(effect)
                if live is not None:
                    return Conflict(stored=live, offered=fingerprint)
                continue
            (record,) = found
            if record["effect_id"] is None and record["lost_since"] is None:
                continue
            if record["effect_id"] is None:
                return Stale(None)
            if record["fingerprint"] != fingerprint:
                return Conflict(stored=record["fingerprint"], offered=fingerprint)
            return _written(found)
        raise _restless(effect.effect_id)

    async def inspect(self, effect_id: str) -> Case | None:
        """See ``ports.Ledger.inspect``."""
        found = await self._session.fetch(_INSPECT, effect_id)
        if not found:
            return None
        row = rows.as_restored(rows.effect_row(found[0]), found[0]["raised_at"])
        return Case(row, rows.audit_events(found[0]["late"]))

    async def proved(self, kind: str, external_ids: Sequence[str]) -> frozenset[str]:
        """See ``ports.Ledger.proved``."""
        found = await self._session.fetch(_PROVED, kind, list(external_ids))
        return frozenset(record["external_id"] for record in found)

    async def last_answers(self, effect_ids: Sequence[str]) -> Mapping[str, Evidence]:
        """See ``ports.Ledger.last_answers``."""
        found = await self._session.fetch(_LAST_ANSWERS, list(effect_ids))
        return {
            record["effect_id"]: Evidence.model_validate_json(record["evidence"])
            for record in found
        }

    async def effects(self, which: EffectFilter) -> Sequence[EffectRow]:
        """See ``ports.Ledger.effects``."""
        if which.states is not None and not which.states & TERMINAL:
            text = _OPEN_EFFECTS
        else:
            text = _ALL_EFFECTS if which.task_id is None else _TASK_EFFECTS
        states = None if which.states is None else [state.value for state in which.states]
        found = await self._session.fetch(
            text, states, which.partition, which.kind, which.task_id, which.limit
        )
        return [rows.effect_row(record) for record in found]

    async def quiet(self, page: Page) -> Sequence[EffectRow]:
        """See ``ports.Ledger.quiet``."""
        since, effect_id = page.after or (None, None)
        found = await self._session.fetch(
            _QUIET_EFFECTS, page.state.value, page.older_than, since, effect_id, page.limit
        )
        return [rows.effect_row(record) for record in found]

    async def audit(self, effect_id: str) -> Sequence[AuditEvent]:
        """See ``ports.Ledger.audit``."""
        return [rows.audit_event(record) for record in await self._session.fetch(_AUDIT, effect_id)]

    async def trails(self, which: EffectFilter, *, after: str = "") -> Sequence[Trail]:
        """See ``ports.Ledger.trails``."""
        is_open = which.states is not None and not which.states & TERMINAL
        states = None if which.states is None else [state.value for state in which.states]
        found = await self._session.fetch(
            _OPEN_TRAILS if is_open else _ALL_TRAILS,
            states,
            which.partition,
            which.kind,
            which.task_id,
            which.limit,
            after,
        )
        return [Trail(rows.effect_row(each), rows.audit_events(each["trail"])) for each in found]

    async def set_gate(self, change: GateChange) -> Gate:
        """See ``ports.Ledger.set_gate``."""
        values = (writes.clean(text) for text in (change.by, change.reason, change.request_id))
        by, reason, request_id = values
        for _ in range(ROUNDS):
            found = await self._session.fetch(
                _SET_GATE, change.partition, change.paused, by, reason, request_id, change.ramp
            )
            if found:
                return rows.gate(found[0])
        raise _restless(f"the gate of {change.partition}")

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

    async def raise_epoch(self, request: EpochRequest) -> Epoch:
        """See ``ports.Ledger.raise_epoch``."""
        by, reason = writes.clean(request.by), writes.clean(request.reason)
        for _ in range(ROUNDS):
            found = await self._session.fetch(
                _RAISE_EPOCH, request.request_id, request.since, request.until, CLOCKS, by, reason
            )
            if found:
                return Epoch.model_validate(dict(found[0]))
        raise _restless(f"the epoch {request.request_id}")

    async def gates(self) -> Sequence[Gate]:
        """See ``ports.Ledger.gates``."""
        return [rows.gate(record) for record in await self._session.fetch(_GATES)]

    async def partitions(self) -> Sequence[PartitionStanding]:
        """See ``ports.Ledger.partitions``."""
        return [rows.partition(record) for record in await self._session.fetch(_PARTITIONS)]

    async def note(self, effect_id: str, by: str, evidence: Evidence) -> None:
        """See ``ports.Ledger.note``."""
        told = writes.json_of(evidence)
        if not await self._told(_NOTE, effect_id, writes.clean(by), told):
            raise NotFound(f"{effect_id} was never claimed, so nothing can be noted of it")

    async def claim_many(self, requests: Sequence[ClaimRequest]) -> Sequence[ChunkAnswer]:
        """See ``ports.Ledger.claim_many``."""
        return await chunk.claim_many(self._session, requests)

    async def record_many(
        self, outcomes: Sequence[tuple[Lease, Refused | Settled]]
    ) -> Collection[str]:
        """See ``ports.Ledger.record_many``."""
        return await chunk.record_many(self._session, outcomes)

    async def aclose(self) -> None:
        """See ``ports.Ledger.aclose``."""
        await self._session.aclose()

    async def _converge(self, effect_id: str, version: int, write: Write, by: str) -> Written:
        return await self._write(write, _CONVERGE, *_converging(effect_id, version, write, by))

    async def _write(self, write: Write, text: str, effect_id: str, *values: Any) -> Written:  # noqa: ANN401  # asyncpg's
        for _ in range(ROUNDS):
            try:
                return _written(await self._told(text, effect_id, *values))
            except asyncpg.UniqueViolationError as error:
                if error.constraint_name != "effects_one_effect_per_fact":
                    raise
            taken = await self._taken(effect_id, write)
            if taken is not None:
                return taken
        raise _restless(effect_id)

    async def _told(self, text: str, *values: Any) -> Sequence[asyncpg.Record]:  # noqa: ANN401  # asyncpg's
        """Run a statement that tells a trail: two who tell that of an archived effect are in no order."""
        for _ in range(ROUNDS):
            try:
                return await self._session.fetch(text, *values)
            except asyncpg.UniqueViolationError as error:
                if error.constraint_name != "audit_events_pkey":
                    raise
        raise _restless(str(values[0]))

    async def _taken(self, effect_id: str, write: Write) -> Taken | None:
        """Who holds the fact; None if it was let go of meanwhile, which only an archive does."""
        found = await self._session.fetch(_ONE_EFFECT, effect_id)
        if not found or write.external_id is None:
            return None
        row = rows.effect_row(found[0])
        proved = await self._session.fetch(_PROVED_BY, row.kind, write.external_id)
        return Taken(write.external_id, proved[0]["effect_id"], row) if proved else None

    async def _live_in_step(self, effect: Effect) -> str | None:
        found = await self._session.fetch(
            _LIVE_IN_STEP, effect.task_id, effect.step, effect.effect_id
        )
        return found[0]["fingerprint"] if found else None


def _converging(
    effect_id: str, version: int, write: Write, by: str
) -> tuple[str, *tuple[Any, ...]]:
    return (
        effect_id,
        version,
        writes.clean(by),
        write.move.value,
        write.state.value,
        [state.value for state in writes.starts(write.move)],
        write.evidence,
        write.receipt,
        write.external_id,
        write.happened_at,
        write.error_class,
        write.job_id,
        write.retry_in,
        write.superseded_by,
    )


def _claim_values(request: ClaimRequest) -> tuple[object, ...]:
    effect = request.effect
    forever = endless(request.resend_for)
    return (
        effect.effect_id,
        request.fingerprint,
        request.owner,
        request.lease,
        request.budget,
        None if forever else request.resend_for,
        forever,
        request.resend,
        effect.partition,
        _evidence_of_claims(request.budget),
        effect.task_id,
        effect.message_id,
        effect.step,
        effect.revision,
        effect.kind,
        request.frozen,
        request.trace_id,
        effect.task_fingerprint,
        effect.begun_at,
        request.sent_from,
    )


@lru_cache(maxsize=128)
def _evidence_of_claims(budget: int) -> str:
    """The evidence of each move that a claim can make, as one JSON object."""
    evidence = {
        Judgement.CLAIM: writes.CLAIMED,
        Judgement.RESEND: writes.RESENT,
        Judgement.FENCE: writes.FENCED,
        Judgement.QUARANTINE: writes.budget_used(budget),
        Judgement.RESTORED: writes.IN_DOUBT,
    }
    return json.dumps(
        {move.value: json.loads(writes.json_of(told)) for move, told in evidence.items()}
    )


def _written(found: Sequence[asyncpg.Record]) -> Written:
    if not found:
        return Stale(None)
    row = rows.effect_row(found[0])
    return Moved(row) if found[0]["applies"] else Stale(row)


def _restless(what: str) -> LedgerDown:
    return LedgerDown(f"{what}: others moved it {ROUNDS} times before us; tried again by itself")


if TYPE_CHECKING:
    _conforms: type[Ledger] = PostgresLedger
