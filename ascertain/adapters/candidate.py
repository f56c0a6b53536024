"""From the candidates that a lookup brought to one finding. Never "the first one wins"."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import JsonValue

from ascertain.contracts.finding import (
    Absent,
    Differs,
    Finding,
    Found,
    Pending,
    Refused,
    Several,
    Unknowable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascertain.contracts.effect import Receipt
    from ascertain.contracts.value import JsonObject


class Standing(StrEnum):
    """How a candidate stands outside. ``UNCLEAR`` is a state that nobody has declared."""

    FACT = "fact"
    PENDING = "pending"
    REFUSED = "refused"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing outside that carries the effect's id.

    Attributes:
        receipt: As evidence, should it be the fact.
        state: The outside's own word for how it stands.
        reason: Why it was refused.
        expected: What was asked for and is not what is there.
        found: What is there instead.
    """

    receipt: Receipt
    standing: Standing
    state: str = ""
    reason: str = ""
    expected: JsonObject = field(default_factory=dict[str, JsonValue])
    found: JsonObject = field(default_factory=dict[str, JsonValue])

    @property
    def external_id(self) -> str:
        """The outside's own id of it."""
        return self.receipt.external_id


def conclude(candidates: Sequence[Candidate], *, asked: str) -> Finding:
    """What all candidates of one complete answer come to.

    Args:
        candidates: Everything that carries the effect's id.
        asked: What was asked, for the detail of an empty answer.
    """
    unclear = [c for c in candidates if c.standing is Standing.UNCLEAR]
    if unclear:
        words = ", ".join(f"{c.external_id} is {c.state!r}" for c in unclear)
        return Unknowable(
            detail=f"a state that the adapter does not declare: {words}",
            candidates=_ids(candidates),
        )
    # What is still worked on may become a second fact.
    real = [c for c in candidates if c.standing is not Standing.REFUSED]
    if len(real) > 1:
        return Several(external_ids=_ids(real))
    if real:
        return _only(real[0])
    if candidates:
        last = candidates[-1]
        return Refused(error_class=last.reason or "refused", detail=_refused(last))
    return Absent(detail=f"{asked} has nothing with this id")


def _only(candidate: Candidate) -> Finding:
    if candidate.expected:
        return Differs(
            external_id=candidate.external_id, expected=candidate.expected, found=candidate.found
        )
    if candidate.standing is Standing.PENDING:
        return Pending(job_id=candidate.external_id, detail=f"still {candidate.state or 'running'}")
    return Found(receipt=candidate.receipt)


def _refused(candidate: Candidate) -> str:
    why = f": {candidate.reason}" if candidate.reason else ""
    return f"{candidate.external_id} is {candidate.state or 'refused'}{why}"


def _ids(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    return tuple(candidate.external_id for candidate in candidates)
