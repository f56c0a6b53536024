"""What an adapter declares of its outside, and what a deployment chooses on top of it."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from ascertain.contracts.value import StrictValue

INLINE_MAX = timedelta(seconds=5)


class LookupBy(StrEnum):
    """By what the outside can be asked for an effect."""

    KEY = "key"
    REFERENCE = "reference"
    LISTING = "listing"


class Semantics(StrictValue):
    """The promises of one outside. A setting of the deployment, not a constant of the code.

    Attributes:
        idempotent_for: How long the outside honours the effect_id as key, from the *first* send; None:
            not at all.
        key_margin: Taken off ``idempotent_for``, for clocks and queues between us and them; at least
            ``in_flight_max`` is taken off.
        compares_bodies: Whether a reused key with another body is told apart.
        lookup: How it can be asked; None: it cannot.
        lag: How late a fact can become visible to the lookup.
        in_flight_max: How long a request that was sent can still take effect.
        max_duration: The longest that one attempt may take.
        harmless: A duplicate costs nothing that matters.
        pure: Nothing outside changes and the result depends on the input alone: the first try needs no
            claim. What could end its worker must run in a process of its own.
    """

    idempotent_for: timedelta | None = None
    key_margin: timedelta = timedelta(minutes=5)
    compares_bodies: bool = False
    lookup: LookupBy | None = None
    lag: timedelta = timedelta(0)
    in_flight_max: timedelta = timedelta(seconds=30)
    max_duration: timedelta = INLINE_MAX
    harmless: bool = False
    pure: bool = False

    @property
    def resend_for(self) -> timedelta | None:
        """How long a same-key same-bytes re-send counts as asking."""
        if self.harmless or self.pure:
            return timedelta.max
        if self.idempotent_for is None:
            return None
        # What is sent at the last moment must still meet its key when it takes effect.
        margin = max(self.key_margin, self.in_flight_max)
        return max(self.idempotent_for - margin, timedelta(0))


class FourEyes(StrictValue):
    """Above which limit a re-send that a person orders needs a second person.

    Attributes:
        field: Where the effect's input has the number, for example ``amount`` or ``charge.amount``. An
            input without a number there is above every limit, for nobody could check it.
        above: The limit itself still passes with one person.
    """

    field: Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)*$")]
    above: Annotated[float, Field(ge=0)]


class Policy(StrictValue):
    """What this deployment chooses for one kind. Read at every decision, so changes reach old tasks.

    Attributes:
        budget: Most granted claims before a person has to look.
        lease: How long a granted claim permits *sending*.
        retry_base: First wait after a proven "not done"; doubles per attempt.
        retry_cap: Longest of these waits.
        ask_first: First wait before asking; later waits grow with the age of the doubt.
        ask_cap: Longest wait between two questions while in doubt.
        ask_quarantined: Wait between two questions in quarantine; None: not asked again.
        held_recheck: How often a held task looks at its gate at first. Of a gate that a person closed: more
            seldom the longer it is closed, every 5 minutes at the seldomest; `resume` wakes it at once.
        resend_unprotected: Allow a re-send after a lagging lookup found nothing and no key protects.
        queue: Run on this task queue; None: inline if short, else on ``TASK_QUEUE-KIND``.
        heartbeat: Heartbeat time-out of queued work.
        four_eyes: Which re-sends need a second person; None: none.
    """

    budget: Annotated[int, Field(ge=1, le=100)] = 5
    lease: Annotated[timedelta, Field(ge=timedelta(milliseconds=100))] = timedelta(seconds=5)
    retry_base: timedelta = timedelta(seconds=1)
    retry_cap: timedelta = timedelta(minutes=5)
    ask_first: timedelta = timedelta(milliseconds=200)
    ask_cap: timedelta = timedelta(minutes=5)
    ask_quarantined: timedelta | None = timedelta(minutes=30)
    held_recheck: timedelta = timedelta(seconds=15)
    resend_unprotected: bool = False
    queue: str | None = None
    heartbeat: timedelta = timedelta(seconds=10)
    four_eyes: FourEyes | None = None

    @model_validator(mode="after")
    def _lease_is_short(self) -> Policy:
        if self.lease > timedelta(minutes=1):
            msg = (
                "lease bounds sending, not running: at most 1 minute (renew it before a late send)"
            )
            raise ValueError(msg)
        return self
