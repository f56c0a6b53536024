"""An effect: one change outside, its states, and the evidence that it exists."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, Field, model_validator

from ascertain.contracts.value import (
    EffectId,
    ExternalId,
    JsonObject,
    KindName,
    MessageId,
    Partition,
    TaskId,
    Value,
    bounded,
)


class State(StrEnum):
    """Where an effect stands. The values are those of the ledger's CHECK constraint."""

    IN_FLIGHT = "IN_FLIGHT"
    ACCEPTED = "ACCEPTED"
    UNKNOWN = "UNKNOWN"
    CLEAR = "CLEAR"
    SETTLED = "SETTLED"
    REFUSED = "REFUSED"
    QUARANTINED = "QUARANTINED"
    TAKEN_OVER = "TAKEN_OVER"
    ABANDONED = "ABANDONED"
    SUPERSEDED = "SUPERSEDED"


TERMINAL = frozenset({State.SETTLED, State.REFUSED, State.ABANDONED, State.SUPERSEDED})
UNRESOLVED = frozenset(
    {State.IN_FLIGHT, State.ACCEPTED, State.UNKNOWN, State.QUARANTINED, State.TAKEN_OVER}
)
# It is closed, or proven not to exist, so nothing of it should be found outside.
ABSENT = frozenset({State.CLEAR, State.REFUSED, State.ABANDONED, State.SUPERSEDED})

# The rule of a proof of absence that holds only while the key protects a re-send, and of what rests on it.
ABSENT_KEYED = "absent_keyed"
# The rules of claims that are granted because the key protects, and no longer than it does.
RESTS_ON_KEY = frozenset({"resend", ABSENT_KEYED})
# The rule, and the error class, of a quarantine because all attempts that are allowed were made.
BUDGET = "budget"
# The rule under which the ledger puts an open claim whose lease is over in doubt.
FENCE = "fence"


_RECEIPT_BYTES = 2048
_EVIDENCE_BYTES = 16 * 1024
_DETAIL_LENGTH = 2000


def _that_exists(at: datetime | None) -> datetime | None:
    """Some give the first moment of all, in their own zone, for no time; no clock in UTC has that."""
    try:
        if at is not None and at.tzinfo is not None:
            at.astimezone(UTC)
    except OverflowError:
        return None
    return at


class Receipt(Value):
    """Evidence that the fact exists outside.

    Attributes:
        external_id: The outside's own id of the fact; proves at most one effect of its kind.
        happened_at: When the outside says it happened, if it says so.
        body: A few fields of the answer, at most 2 KiB; longer answers are cut and say so.
        digest: SHA-256, hexadecimal, of the answer's bytes as received.
    """

    external_id: ExternalId
    happened_at: Annotated[datetime | None, AfterValidator(_that_exists)] = None
    body: JsonObject = Field(default_factory=dict)
    digest: str | None = None
    truncated: bool = False

    @model_validator(mode="before")
    @classmethod
    def _keep_what_fits(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        fields = cast("dict[str, object]", given)
        body = fields.get("body")
        if not isinstance(body, dict):
            return fields
        whole = cast("JsonObject", body)
        kept = bounded(whole, _RECEIPT_BYTES)
        return fields if kept is whole else {**fields, "body": kept, "truncated": True}


class Evidence(Value):
    """Why a move was made: kept on the row and in the audit trail.

    Attributes:
        source: ``answer`` the outside answered the attempt; ``phase`` the transport's own trace;
            ``lookup`` the outside was asked; ``late_write`` a fenced owner's record; ``rule`` a rule
            of Ascertain, named; ``person`` somebody said so.
        rule: Short name of the rule that applied, stable for machines.
        detail: One sentence for people.
        body: What was seen, at most 16 KiB.
    """

    source: Literal["answer", "phase", "lookup", "late_write", "rule", "person"]
    rule: str
    detail: str = ""
    body: JsonObject = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _keep_what_fits(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        fields = dict(cast("dict[str, object]", given))
        detail, body = fields.get("detail"), fields.get("body")
        if isinstance(detail, str):
            fields["detail"] = detail[:_DETAIL_LENGTH].encode("utf-8", "replace").decode()
        if isinstance(body, dict):
            fields["body"] = bounded(cast("JsonObject", body), _EVIDENCE_BYTES)
        return fields


class Undone(Value):
    """The settled effect that an undo effect takes back."""

    effect_id: EffectId
    external_id: str


class Effect(Value):
    """One change outside, as the workflow hands it to an activity.

    Attributes:
        effect_id: Derived, never random: see ``ascertain.keys.effect_id``.
        step: The step's name; an undo effect's step ends in ``~undo``.
        revision: 0, or one more for every amendment by a person.
        undoes: Set for undo effects only.
        task_fingerprint: Of the whole task. The ledger refuses a first claim under a task_id that was
            begun with other content, also long after Temporal has forgotten it. None: not compared.
        begun_at: When its task was begun, as far as Temporal knows: what was begun before the ledger was
            restored may have been done unknown to it. None: that is not known either.
    """

    effect_id: EffectId
    task_id: TaskId
    step: str
    revision: int = 0
    kind: KindName
    partition: Partition
    message_id: MessageId | None = None
    input: JsonObject
    undoes: Undone | None = None
    task_fingerprint: str | None = None
    begun_at: datetime | None = None


class EffectRow(Value):
    """One row of the ledger, and the ledger's clock at the time of reading.

    Attributes:
        version: Goes up by one with every move.
        lease_version: The fencing number; never goes down.
        lease_until: After this the owner must not send any more.
        first_sent_at: When the first claim was granted; the life of an idempotency key counts from it.
        resend_until: Until then a same-key same-bytes re-send counts as asking; None: never.
        budget_from: Attempts that the budget does not count: those before the last retry that a person
            ordered, and what a restored ledger may have forgotten.
        retry_at: A CLEAR effect is not claimed before it.
        frozen: The exact bytes stored at the first claim.
        now: The ledger's clock when the row was read.
    """

    effect_id: EffectId
    task_id: TaskId
    message_id: str | None = None
    step: str
    revision: int = 0
    kind: str
    partition: str
    state: State
    state_since: datetime
    version: int
    attempt: int
    budget_from: int = 0
    lease_owner: str
    lease_version: int
    lease_until: datetime
    last_heartbeat_at: datetime | None = None
    first_sent_at: datetime
    resend_until: datetime | None = None
    retry_at: datetime | None = None
    fingerprint: str
    frozen: bytes
    job_id: str | None = None
    receipt: Receipt | None = None
    external_id: str | None = None
    happened_at: datetime | None = None
    error_class: str | None = None
    evidence: Evidence
    trace_id: str | None = None
    taken_by: str | None = None
    superseded_by: str | None = None
    task_fingerprint: str | None = None
    created_at: datetime
    now: datetime


class AuditEvent(Value):
    """One line of the append-only audit trail of an effect.

    Attributes:
        seq: 1, 2, 3 ... within the effect.
        move: The move, or ``refused_write`` for a write of an old lease, which changed nothing.
        actor: The worker or the person.
        at: The ledger's clock.
        hash: Chained over the previous event's hash, hexadecimal.
    """

    effect_id: EffectId
    seq: int
    move: str
    actor: str
    from_state: State | None
    to_state: State | None
    version: int
    lease_version: int
    attempt: int
    evidence: Evidence
    receipt: Receipt | None = None
    at: datetime
    hash: str
