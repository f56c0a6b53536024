"""Claims and records of a whole chunk: one statement and one commit for many effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import asyncpg

from ascertain.contracts import claim
from ascertain.ledger import row as rows, write as writes
from ascertain.ledger.decision import endless, told
from ascertain.ledger.statement import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ascertain.contracts.claim import ChunkAnswer, ClaimRequest, Lease
    from ascertain.contracts.outcome import Refused, Settled
    from ascertain.ledger.session import Session

_CLAIM_MANY: Final = statement("claim_many")
_RECORD_MANY: Final = statement("record_many")
_MET: Final = {
    "effects_one_content_per_task",
    "effects_one_live_per_step",
    "effects_not_archived",
}
_CLAIMED: Final = writes.json_of(writes.CLAIMED)
_IN_DOUBT: Final = writes.json_of(writes.IN_DOUBT)


async def claim_many(session: Session, requests: Sequence[ClaimRequest]) -> Sequence[ChunkAnswer]:
    """See ``ports.Ledger.claim_many``."""
    try:
        found = await _found(session, requests)
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name not in _MET:
            raise
        # One of them was begun with other content, or archived, in this very moment: each asks by itself.
        return [None for _ in requests]
    by_effect = {record["asked"]: record for record in found}
    return [_answer(by_effect[request.effect.effect_id], request) for request in requests]


async def _found(session: Session, requests: Sequence[ClaimRequest]) -> Sequence[asyncpg.Record]:
    """The answers; asked once more where one shows neither a row nor a gate, for it lost a race.

    The other one has committed then. It may have been our own first try, whose answer was lost.
    """
    values = _claims(requests)
    found = await session.fetch(_CLAIM_MANY, *values)
    if all(record["effect_id"] is not None or record["gate"] is not None for record in found):
        return found
    try:
        return await session.fetch(_CLAIM_MANY, *values)
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name not in _MET:
            raise
        return found  # what is granted is granted


async def record_many(
    session: Session, outcomes: Sequence[tuple[Lease, Settled | Refused]]
) -> Collection[str]:
    """See ``ports.Ledger.record_many``."""
    made = [writes.of_outcome(outcome, None) for _, outcome in outcomes]
    try:
        found = await session.fetch(
            _RECORD_MANY,
            [lease.effect_id for lease, _ in outcomes],
            [lease.lease_version for lease, _ in outcomes],
            [write.move.value for write in made],
            [write.state.value for write in made],
            [write.evidence for write in made],
            [write.receipt for write in made],
            [write.external_id for write in made],
            [write.happened_at for write in made],
            [write.error_class for write in made],
        )
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name != "effects_one_effect_per_fact":
            raise
        return frozenset()
    return frozenset(record["effect_id"] for record in found)


def _claims(requests: Sequence[ClaimRequest]) -> Sequence[object]:
    effects = [request.effect for request in requests]
    waits = [request.resend_for for request in requests]
    return (
        [effect.effect_id for effect in effects],
        [effect.task_id for effect in effects],
        [effect.message_id for effect in effects],
        [effect.step for effect in effects],
        [effect.kind for effect in effects],
        [effect.partition for effect in effects],
        [request.fingerprint for request in requests],
        [request.frozen for request in requests],
        [request.lease for request in requests],
        [None if endless(wait) else wait for wait in waits],
        [endless(wait) for wait in waits],
        [effect.revision for effect in effects],
        requests[0].owner,
        _CLAIMED,
        requests[0].trace_id,
        [effect.task_fingerprint for effect in effects],
        _IN_DOUBT,
        [effect.begun_at for effect in effects],
    )


def _answer(record: asyncpg.Record, request: ClaimRequest) -> ChunkAnswer:
    if record["effect_id"] is None:
        closed = None if record["gate"] is None else rows.paused(record, record["asked"])
        return told(None, closed, request)
    row = rows.effect_row(record)
    if record["granted"]:
        return claim.Granted(
            claim.Lease(row.effect_id, row.lease_owner, row.lease_version, row.attempt), row
        )
    return told(row, None, request)
