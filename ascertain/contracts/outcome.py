"""What an adapter says of one attempt. A closed union; anything else is ``Unknown``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from ascertain.contracts.effect import Evidence, Receipt
from ascertain.contracts.value import Value


class Settled(Value):
    """The fact exists, and here is the proof."""

    type: Literal["settled"] = "settled"
    receipt: Receipt
    evidence: Evidence


class Accepted(Value):
    """The outside took it and works on it. Never sent again; asked for instead."""

    type: Literal["accepted"] = "accepted"
    job_id: Annotated[str, Field(min_length=1, max_length=255)]
    evidence: Evidence
    ask_in: timedelta | None = None


class Refused(Value):
    """The outside said no for good and nothing happened."""

    type: Literal["refused"] = "refused"
    error_class: str
    evidence: Evidence


class NotDone(Value):
    """Proven not to exist: it never left us, or was refused before any work. May be tried again.

    ``retry_after`` is what the outside asked for, already clipped; None leaves it to the policy.
    """

    type: Literal["not_done"] = "not_done"
    error_class: str
    evidence: Evidence
    retry_after: timedelta | None = None


class Unknown(Value):
    """It may or may not exist. Only asking is allowed now."""

    type: Literal["unknown"] = "unknown"
    error_class: str
    evidence: Evidence


Outcome = Annotated[Settled | Accepted | Refused | NotDone | Unknown, Field(discriminator="type")]
