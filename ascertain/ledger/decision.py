"""What a claim is answered: pure, given the row, the gate and the ledger's clock.

The store's ``claim`` statement judges alike; one state machine drives both and compares.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar, assert_never

from ascertain.contracts import claim
from ascertain.contracts.effect import ABSENT_KEYED, State

if TYPE_CHECKING:
    from ascertain.contracts.claim import ChunkAnswer, ClaimAnswer, ClaimRequest, Paused
    from ascertain.contracts.effect import EffectRow

_Part = TypeVar("_Part")

# How "for ever" reads in Python, where the database has 'infinity': a time of which arithmetic and
# every time zone are still in range.
FOREVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
# A longer promise than this is one for ever; it also keeps the sum of times in range.
ENDLESS: Final = timedelta(days=365_000)


class Judgement(StrEnum):
    """Each way in which a claim is answered. The first five also move the row."""

    CLAIM = "claim"
    RESEND = "resend"
    FENCE = "fence"
    QUARANTINE = "quarantine"
    RESTORED = "restored"
    AGAIN = "again"
    BUSY = "busy"
    CONFLICT = "conflict"
    SETTLED = "settled"
    REFUSED = "refused"
    TAKEN_OVER = "taken_over"
    PAUSED = "paused"
    UNRESOLVED = "unresolved"


def judge(
    row: EffectRow | None,
    closed: Paused | None,
    request: ClaimRequest,
    now: datetime,
    *,
    late: bool,
    lost: bool = False,
) -> Judgement:
    """How the ledger answers a claim.

    The gate stops dispatch, never asking: only what would be granted is paused. ``row`` is None before
    the first claim, ``closed`` is the answer of a gate that keeps it from dispatching, ``late`` says
    whether a fenced owner brought a receipt, and ``lost`` whether a restored ledger may have forgotten
    what was done.
    """
    if lost and (row is None or row.fingerprint == request.fingerprint):
        return Judgement.RESTORED
    wish = _wish(row, request, now, late=late)
    if wish not in {Judgement.CLAIM, Judgement.RESEND}:
        return wish
    if closed is not None:
        return Judgement.PAUSED
    if row is not None and row.attempt - row.budget_from >= request.budget:
        return Judgement.QUARANTINE
    return wish


def _wish(row: EffectRow | None, request: ClaimRequest, now: datetime, *, late: bool) -> Judgement:
    if row is None:
        return Judgement.CLAIM
    if row.fingerprint != request.fingerprint:
        return Judgement.CONFLICT
    match row.state:
        case State.SETTLED:
            return Judgement.SETTLED
        case State.REFUSED | State.ABANDONED | State.SUPERSEDED:
            return Judgement.REFUSED
        case State.TAKEN_OVER:
            return Judgement.TAKEN_OVER
        case State.IN_FLIGHT:
            return _meets_open_claim(row, request, now)
        case State.UNKNOWN:
            return _asks_by_sending(row, request, now)
        case State.CLEAR:
            due = row.retry_at is None or row.retry_at <= now
            free = due and not late and not _rests_on_a_dead_key(row, request, now)
            return Judgement.CLAIM if free else Judgement.UNRESOLVED
        case State.ACCEPTED | State.QUARANTINED:
            return Judgement.UNRESOLVED
        case _:
            assert_never(row.state)


def _meets_open_claim(row: EffectRow, request: ClaimRequest, now: datetime) -> Judgement:
    if row.lease_until <= now:
        return Judgement.FENCE
    return Judgement.AGAIN if row.lease_owner == request.owner else Judgement.BUSY


def _asks_by_sending(row: EffectRow, request: ClaimRequest, now: datetime) -> Judgement:
    if request.resend and _key_protects(row, request, now):
        return Judgement.RESEND
    return Judgement.UNRESOLVED


def _rests_on_a_dead_key(row: EffectRow, request: ClaimRequest, now: datetime) -> bool:
    """Absence was concluded only because the key would catch a fact that shows late."""
    return row.evidence.rule == ABSENT_KEYED and not _key_protects(row, request, now)


def _key_protects(row: EffectRow, request: ClaimRequest, now: datetime) -> bool:
    """As was promised at the first send, or less, if less is promised by now."""
    if row.resend_until is None or request.resend_for is None:
        return False
    life = min(row.resend_until - row.first_sent_at, request.resend_for)
    return now + request.lease <= row.first_sent_at + life


def answer(
    judgement: Judgement, row: EffectRow | None, closed: Paused | None, request: ClaimRequest
) -> ClaimAnswer:
    """The answer that a judgement gives: from the row after it, or the gate's own for ``PAUSED``."""
    if judgement is Judgement.PAUSED:
        return _present(closed, judgement)
    row = _present(row, judgement)
    match judgement:
        case Judgement.CLAIM | Judgement.RESEND | Judgement.AGAIN:
            lease = claim.Lease(row.effect_id, row.lease_owner, row.lease_version, row.attempt)
            return claim.Granted(lease, row)
        case Judgement.FENCE | Judgement.QUARANTINE | Judgement.RESTORED | Judgement.UNRESOLVED:
            return claim.Unresolved(row)
        case Judgement.BUSY:
            return claim.Busy(row.lease_until, row)
        case Judgement.CONFLICT:
            return claim.Conflict(stored=row.fingerprint, offered=request.fingerprint)
        case Judgement.SETTLED:
            return claim.Settled(_present(row.receipt, judgement), row)
        case Judgement.REFUSED:
            return claim.Refused(row)
        case Judgement.TAKEN_OVER:
            return claim.TakenOver(_present(row.taken_by, judgement), row)
        case _:
            assert_never(judgement)


def told(row: EffectRow | None, closed: Paused | None, request: ClaimRequest) -> ChunkAnswer:
    """What a chunk is told of an effect that it may not begin."""
    if row is None:
        return closed
    if row.fingerprint != request.fingerprint:
        return None
    if row.state is State.SETTLED and row.receipt is not None:
        return claim.Settled(row.receipt, row)
    return claim.Refused(row) if row.state is State.REFUSED else None


def endless(promise: timedelta | None) -> bool:
    """Whether a same-key re-send is promised to be harmless for ever."""
    return promise is not None and promise >= ENDLESS


def _present(value: _Part | None, judgement: Judgement) -> _Part:
    if value is None:
        raise ValueError(f"the ledger judged {judgement} without what that rests on")
    return value
