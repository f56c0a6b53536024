"""What each move does to a row: pure functions, for the twin. Every state comes from the machine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Final

from ascertain.contracts.effect import (
    ABSENT_KEYED,
    RESTS_ON_KEY,
    AuditEvent,
    EffectRow,
    Evidence,
    Receipt,
    State,
)
from ascertain.contracts.epoch import RESTORED
from ascertain.ledger import write as writes
from ascertain.ledger.audit import same
from ascertain.ledger.decision import FOREVER, Judgement, endless
from ascertain.machine import Move, next_state

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ascertain.contracts.claim import ClaimRequest, Lease
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.epoch import Epoch
    from ascertain.ledger.write import Write

DISPATCHING: Final = frozenset({Judgement.CLAIM, Judgement.RESEND, Judgement.QUARANTINE})
MOVING: Final = frozenset(
    {
        Judgement.CLAIM,
        Judgement.RESEND,
        Judgement.FENCE,
        Judgement.QUARANTINE,
        Judgement.RESTORED,
    }
)


@dataclass(frozen=True, slots=True)
class Told:
    """What the trail is told of one write; ``receipt`` is JSON."""

    move: str
    actor: str
    evidence: Evidence
    receipt: str | None = None


def read(row: EffectRow, now: datetime) -> EffectRow:
    """The row as it is read at ``now``."""
    return row.model_copy(update={"now": now})


def lost_since(
    epochs: Iterable[Epoch], row: EffectRow | None, begun_at: datetime | None
) -> datetime | None:
    """Since when an effect may have been done unknown to a ledger that was restored."""
    if row is None:
        found = [p.since for p in epochs if begun_at is None or p.until > begun_at]
    else:
        clear = row.state is State.CLEAR
        found = [p.since for p in epochs if clear and p.raised_at > row.state_since]
    return min(found, default=None)


def raised_at(row: EffectRow, epochs: Iterable[Epoch]) -> datetime | None:
    """When a restore last made it unsure what of the effect had been sent."""
    raised = [epoch.raised_at for epoch in epochs if epoch.raised_at > row.created_at]
    return max(raised, default=None)


def first(request: ClaimRequest, now: datetime, lost: datetime | None = None) -> EffectRow:
    """The row that the first claim of an effect makes; in doubt if it may have been lost since then."""
    effect = request.effect
    begun = now if lost is None else min(now, max(lost, effect.begun_at or lost))
    begun = min(begun, request.sent_from or begun)
    resend_until = None
    if request.resend_for is not None:
        resend_until = FOREVER if endless(request.resend_for) else begun + request.resend_for
    return EffectRow(
        effect_id=effect.effect_id,
        task_id=effect.task_id,
        message_id=effect.message_id,
        step=effect.step,
        revision=effect.revision,
        kind=effect.kind,
        partition=effect.partition,
        state=_target(None, Move.CLAIM),
        state_since=now,
        version=1,
        attempt=1,
        budget_from=0 if lost is None else 1,
        lease_owner=request.owner if lost is None else RESTORED,
        lease_version=1,
        lease_until=now + request.lease if lost is None else now,
        first_sent_at=begun,
        resend_until=resend_until,
        fingerprint=request.fingerprint,
        frozen=request.frozen,
        evidence=writes.CLAIMED if lost is None else writes.IN_DOUBT,
        trace_id=request.trace_id,
        task_fingerprint=effect.task_fingerprint,
        created_at=now,
        now=now,
    )


def claimed(
    row: EffectRow, judgement: Judgement, request: ClaimRequest, now: datetime
) -> EffectRow:
    """The row after a claim that moved it: granted, fenced or stopped by its budget."""
    keyed = row.evidence.rule == ABSENT_KEYED
    evidence, error_class = {
        Judgement.CLAIM: (writes.KEYED if keyed else writes.CLAIMED, None),
        Judgement.RESEND: (writes.RESENT, None),
        Judgement.FENCE: writes.left_by(row.lease_owner),
        Judgement.QUARANTINE: (writes.budget_used(request.budget), "budget"),
        Judgement.RESTORED: (writes.IN_DOUBT, None),
    }[judgement]
    moved: dict[str, Any] = {"evidence": evidence, "error_class": error_class, "retry_at": None}
    if judgement is not Judgement.QUARANTINE:
        moved["lease_version"] = row.lease_version + 1
    if judgement in {Judgement.CLAIM, Judgement.RESEND}:
        moved["attempt"] = row.attempt + 1
        moved["lease_owner"] = request.owner
        moved["lease_until"] = now + request.lease
        moved["trace_id"] = row.trace_id if request.trace_id is None else request.trace_id
    if judgement is Judgement.RESTORED:
        moved |= {"attempt": row.attempt + 1, "lease_owner": RESTORED, "lease_until": now}
        moved["budget_from"] = row.budget_from + 1
    if judgement in {Judgement.CLAIM, Judgement.RESTORED}:
        moved["job_id"] = None
    return _moved(row, move_of(judgement), now, moved)


def move_of(judgement: Judgement) -> Move:
    """The move that a claim's answer is: what may have been forgotten counts as claimed."""
    return Move.CLAIM if judgement is Judgement.RESTORED else Move(judgement.value)


def owned(row: EffectRow, lease: Lease) -> bool:
    """Whether the claim is open and still its owner's."""
    return row.state is State.IN_FLIGHT and row.lease_version == lease.lease_version


def archived(row: EffectRow) -> EffectRow:
    """A settled row as the archive keeps it."""
    dropped: dict[str, Any] = {
        "budget_from": 0,
        "lease_owner": writes.ARCHIVED.rule,
        "lease_until": row.state_since,
        "last_heartbeat_at": None,
        "resend_until": None,
        "retry_at": None,
        "frozen": b"",
        "job_id": None,
        "error_class": None,
        "taken_by": None,
        "evidence": writes.ARCHIVED,
    }
    return row.model_copy(update=dropped)


def never_claimed(effect: Effect, fingerprint: str, by: str, now: datetime) -> EffectRow:
    """The row that refuses every claim of an effect whose task was cancelled first."""
    return EffectRow(
        effect_id=effect.effect_id,
        task_id=effect.task_id,
        message_id=effect.message_id,
        step=effect.step,
        revision=effect.revision,
        kind=effect.kind,
        partition=effect.partition,
        state=_target(None, Move.WITHDRAW),
        state_since=now,
        version=1,
        attempt=0,
        lease_owner=by,
        lease_version=0,
        lease_until=now,
        first_sent_at=now,
        fingerprint=fingerprint,
        frozen=b"",
        evidence=writes.WITHDRAWN,
        created_at=now,
        now=now,
    )


def withdrawn(row: EffectRow, now: datetime) -> EffectRow:
    """The row after its task was cancelled."""
    gone = {"evidence": writes.WITHDRAWN, "error_class": None, "retry_at": None}
    return _moved(row, Move.WITHDRAW, now, gone)


def renewable(row: EffectRow, lease: Lease, extend: timedelta, now: datetime) -> bool:
    """Whether the claim is still its owner's and, where it rests on its key, that protects so long."""
    if not owned(row, lease):
        return False
    until = row.resend_until
    keyed = row.evidence.rule in RESTS_ON_KEY
    return not keyed or (until is not None and now + extend <= until)


def renewed(row: EffectRow, extend: timedelta, now: datetime) -> EffectRow:
    """The row after its owner lengthened the claim."""
    moved = {
        "state": _target(row.state, Move.RENEW),
        "version": row.version + 1,
        "lease_until": max(row.lease_until, now + extend),
        "last_heartbeat_at": now,
        "now": now,
    }
    return row.model_copy(update=moved)


def written(row: EffectRow, write: Write, by: str, now: datetime) -> EffectRow:
    """The row after an outcome, a finding, a fence or a decision."""
    settled = write.state is State.SETTLED
    happened_at = None if write.happened_at is None else write.happened_at.astimezone(UTC)
    moved: dict[str, Any] = {
        "evidence": Evidence.model_validate_json(write.evidence),
        "error_class": write.error_class,
        "job_id": write.job_id or row.job_id,
        "receipt": receipt_of(write.receipt) if settled else None,
        "external_id": write.external_id if settled else None,
        "happened_at": happened_at if settled else None,
        "retry_at": None if write.retry_in is None else now + write.retry_in,
    }
    if write.move is Move.DOUBT:
        moved["lease_until"] = min(row.lease_until, now)
    if write.move is Move.FENCE:
        moved["lease_version"] = row.lease_version + 1
    if write.move is Move.TAKE:
        moved["taken_by"] = by
    if write.move is Move.SUPERSEDE:
        moved["superseded_by"] = write.superseded_by
    if write.move in {Move.DENY, Move.RETRY, Move.RELEASE}:
        moved["taken_by"] = None
    if write.move in {Move.DENY, Move.RETRY}:
        moved["budget_from"] = row.attempt
    return _moved(row, write.move, now, moved)


def event(before: EffectRow | None, after: EffectRow, told: Told, at: datetime) -> AuditEvent:
    """One line of the trail, before it is numbered and chained."""
    return AuditEvent(
        effect_id=after.effect_id,
        seq=0,
        move=str(told.move),
        actor=told.actor,
        from_state=None if before is None else before.state,
        to_state=after.state,
        version=after.version,
        lease_version=after.lease_version,
        attempt=after.attempt,
        evidence=told.evidence,
        receipt=receipt_of(told.receipt),
        at=at,
        hash="",
    )


def receipt_of(text: str | None) -> Receipt | None:
    """A receipt as it comes back from its JSON."""
    return None if text is None else Receipt.model_validate_json(text)


def repeats(told: AuditEvent, lease: Lease, write: Write) -> bool:
    """Whether the event is this very write of this lease, by the text that the database has of it."""
    if (told.move, told.actor) != (write.move, lease.owner):
        return False
    evidence, receipt = Evidence.model_validate_json(write.evidence), receipt_of(write.receipt)
    return (
        told.lease_version == lease.lease_version
        and same(told.evidence, evidence)
        and same(told.receipt, receipt)
    )


def _moved(row: EffectRow, move: Move, now: datetime, changes: dict[str, Any]) -> EffectRow:
    always = {
        "state": _target(row.state, move),
        "state_since": now,
        "version": row.version + 1,
        "now": now,
    }
    return row.model_copy(update={**changes, **always})


def _target(state: State | None, move: Move) -> State:
    target = next_state(state, move)
    if target is None:
        raise ValueError(f"no {move} leads on from {state}")
    return target
