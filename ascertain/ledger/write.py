"""What a write puts into the ledger, for the store and its twin alike: a move with its evidence.

Evidence and receipts are kept as JSON without defaults, so that a field added by a later release
changes nothing that was hashed, and without NUL, which PostgreSQL cannot hold.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC
from functools import lru_cache
from typing import TYPE_CHECKING, Final, assert_never

from ascertain.contracts import outcome as outcomes
from ascertain.contracts.effect import ABSENT_KEYED, FENCE, Evidence, State
from ascertain.contracts.epoch import MAY_BE_FORGOTTEN, RESTORED
from ascertain.ledger.decision import Judgement
from ascertain.machine import ACTOR, TABLE, Actor, Move

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from ascertain.contracts.claim import Verdict
    from ascertain.contracts.effect import Receipt
    from ascertain.contracts.outcome import Outcome

REFUSED_WRITE: Final = "refused_write"
NOTE: Final = "note"

CLAIMED: Final = Evidence(source="rule", rule="claim", detail="the call may be leaving now")
RESENT: Final = Evidence(
    source="rule",
    rule="resend",
    detail="sent again: the same bytes under the same key count as asking while the key protects",
)
KEYED: Final = Evidence(
    source="rule",
    rule=ABSENT_KEYED,
    detail="the call may be leaving now; what it repeats counts as absent only while the key protects",
)
RENEWED: Final = Evidence(source="rule", rule="renew")
FENCED: Final = Evidence(
    source="rule",
    rule=FENCE,
    detail="its attempt's permit ran out before anything was recorded; whether it was sent is unknown",
)
IN_DOUBT: Final = Evidence(
    source="rule",
    rule=RESTORED,
    detail=f"{MAY_BE_FORGOTTEN}, so it is asked for before it is sent",
)
ARCHIVED: Final = Evidence(
    source="rule",
    rule="archived",
    detail="it is archived: its receipt stands, what was sent does not",
)
WITHDRAWN: Final = Evidence(
    source="person", rule="withdraw", detail="its task was cancelled before it was done"
)
LATE_RENEWAL: Final = Evidence(
    source="late_write", rule="renew", detail="the permit of an attempt that no longer holds it"
)

# What reconciliation may conclude, and the move that each conclusion is.
FOUND: Final[Mapping[State, Move]] = {
    State.SETTLED: Move.FIND,
    State.REFUSED: Move.FIND_REFUSED,
    State.ACCEPTED: Move.FIND_PENDING,
    State.CLEAR: Move.FIND_ABSENT,
    State.QUARANTINED: Move.QUARANTINE,
}

_NUL: Final = re.compile(r"\\(\\|u0000)")


@dataclass(frozen=True, slots=True)
class Write:
    """One move as it is stored.

    Attributes:
        evidence: JSON of an ``Evidence``.
        receipt: JSON of a ``Receipt``.
        retry_in: Sets ``retry_at`` to now plus this; None clears it.
    """

    move: Move
    state: State
    evidence: str
    receipt: str | None = None
    external_id: str | None = None
    happened_at: datetime | None = None
    error_class: str | None = None
    job_id: str | None = None
    retry_in: timedelta | None = None
    superseded_by: str | None = None


@lru_cache(maxsize=128)
def of_claims(budget: int) -> str:
    """The evidence of each move that a claim can make, as one JSON object."""
    evidence = {
        Judgement.CLAIM: CLAIMED,
        Judgement.RESEND: RESENT,
        Judgement.FENCE: FENCED,
        Judgement.QUARANTINE: budget_used(budget),
        Judgement.RESTORED: IN_DOUBT,
    }
    named = {**{move.value: told for move, told in evidence.items()}, ABSENT_KEYED: KEYED}
    return json.dumps({name: json.loads(json_of(told)) for name, told in named.items()})


def of_outcome(outcome: Outcome, retry_in: timedelta | None) -> Write:
    """The move that an attempt's outcome is."""
    evidence = json_of(outcome.evidence)
    match outcome:
        case outcomes.Settled():
            return _proven(Move.SETTLE, evidence, outcome.receipt)
        case outcomes.Accepted():
            job_id = clean(outcome.job_id)
            return Write(Move.ACCEPT, State.ACCEPTED, evidence, job_id=job_id)
        case outcomes.Refused():
            error_class = clean(outcome.error_class)
            return Write(Move.REFUSE, State.REFUSED, evidence, error_class=error_class)
        case outcomes.NotDone():
            error_class = clean(outcome.error_class)
            return Write(
                Move.CLEAR, State.CLEAR, evidence, error_class=error_class, retry_in=retry_in
            )
        case outcomes.Unknown():
            error_class = clean(outcome.error_class)
            return Write(Move.DOUBT, State.UNKNOWN, evidence, error_class=error_class)
        case _:
            assert_never(outcome)


def of_finding(verdict: Verdict) -> Write:
    """The move that a conclusion of reconciliation is.

    Raises:
        ValueError: Reconciliation cannot conclude this state, or SETTLED has no receipt.
    """
    move = FOUND.get(verdict.state)
    if move is None:
        raise ValueError(f"reconciliation does not conclude {verdict.state}")
    return _of_verdict(move, verdict)


def of_decision(move: Move, verdict: Verdict) -> Write:
    """The move that a person's decision is.

    Raises:
        ValueError: It is no person's move, does not lead to the verdict's state, or SETTLED has no
            receipt.
    """
    if ACTOR[move] is not Actor.PERSON:
        raise ValueError(f"{move} is not a person's move")
    if verdict.state not in TABLE[move].values():
        raise ValueError(f"{move} does not lead to {verdict.state}")
    return _of_verdict(move, verdict)


def of_amendment(denial: Verdict | None, verdict: Verdict) -> tuple[Write, ...]:
    """The moves that an amendment is: that it does not exist, unless that is known, then its successor.

    Raises:
        ValueError: The verdict is not SUPERSEDED, or the denial not CLEAR.
    """
    superseded = of_decision(Move.SUPERSEDE, verdict)
    return (superseded,) if denial is None else (of_decision(Move.DENY, denial), superseded)


def fence(owner: str = "") -> Write:
    """The move that ends a claim whose lease is over.

    Args:
        owner: Of the claim. One that only a restore made was begun by no worker, and left by none.
    """
    evidence, error_class = left_by(owner)
    return Write(Move.FENCE, State.UNKNOWN, json_of(evidence), error_class=error_class)


def left_by(owner: str) -> tuple[Evidence, str]:
    """Why a claim is in doubt whose lease is over, in words and in a word."""
    return (IN_DOUBT, RESTORED) if owner == RESTORED else (FENCED, "fenced")


def starts(move: Move) -> tuple[State, ...]:
    """The states from which a move leads on."""
    return tuple(state for state in TABLE[move] if state is not None)


def late(outcome: Outcome) -> str:
    """What the trail keeps of a write that came too late, as JSON: the outcome that it would have been."""
    told = outcome.evidence
    body = {**told.body, "outcome": outcome.type}
    match outcome:
        case outcomes.Settled():
            pass
        case outcomes.Accepted():
            body["job_id"] = outcome.job_id
        case outcomes.Refused() | outcomes.NotDone() | outcomes.Unknown():
            body["error_class"] = outcome.error_class
        case _:
            assert_never(outcome)
    return json_of(Evidence(source="late_write", rule=told.rule, detail=told.detail, body=body))


@lru_cache(maxsize=128)
def budget_used(budget: int) -> Evidence:
    """Why a claim is not granted any more."""
    detail = f"its budget of {budget} attempts is used up"
    return Evidence(source="rule", rule="budget", detail=detail, body={"budget": budget})


def json_of(value: Evidence | Receipt) -> str:
    """JSON as it is stored."""
    text = value.model_dump_json(exclude_defaults=True)
    return _NUL.sub(_replacement, text) if "\\u0000" in text else text


def clean(text: str) -> str:
    """Text as it is stored."""
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _replacement(match: re.Match[str]) -> str:
    return "\\\\" if match[1] == "\\" else "\\ufffd"


def _of_verdict(move: Move, verdict: Verdict) -> Write:
    evidence = json_of(verdict.evidence)
    error_class = None if verdict.error_class is None else clean(verdict.error_class)
    if verdict.state is State.SETTLED:
        if verdict.receipt is None:
            raise ValueError("SETTLED needs a receipt")
        return _proven(move, evidence, verdict.receipt, error_class)
    return Write(
        move,
        verdict.state,
        evidence,
        receipt=None if verdict.receipt is None else json_of(verdict.receipt),
        error_class=error_class,
        job_id=None if verdict.job_id is None else clean(verdict.job_id),
        retry_in=verdict.retry_at_in if verdict.state is State.CLEAR else None,
        superseded_by=verdict.superseded_by,
    )


def _proven(move: Move, evidence: str, receipt: Receipt, error_class: str | None = None) -> Write:
    happened_at = receipt.happened_at
    if happened_at is not None and happened_at.tzinfo is None:
        happened_at = happened_at.replace(tzinfo=UTC)
    return Write(
        move,
        State.SETTLED,
        evidence,
        receipt=json_of(receipt),
        external_id=clean(receipt.external_id),
        happened_at=happened_at,
        error_class=error_class,
    )
