"""A breaker: when a partition's gate closes by itself, and how it opens again."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, model_validator

from ascertain.contracts.value import KindName, Partition, StrictValue, Value

Share = Annotated[float, Field(ge=0, lt=1)]

# Who closes and opens a gate where it was no person.
BY: Final = "breaker"


class Rule(StrEnum):
    """What can close a gate."""

    UNKNOWN_SHARE = "unknown_share"
    ERROR_SHARE = "error_share"
    LAG = "lag"


class Breaker(StrictValue):
    """When a partition's gate closes by itself: at least one rule. Each worker counts its own attempts.

    Attributes:
        partition: Only this one; None: each partition by itself.
        kind: Only effects of this kind count; None: all together. What closes is the whole partition.
        unknown_share: Close when a larger share of the attempts ended in doubt.
        error_share: Close when a larger share of them ended in doubt or provably not done.
        lag: Close when an effect has been in doubt for longer; looked at in every sweep.
        of_at_least: So many attempts before a share says anything.
        window: Attempts that are older do not count.
        probe_after: How long the gate stays closed before claims are let through to probe.
        probes: How many then: all of them answered opens the gate, one that is not closes it again.
    """

    partition: Partition | None = None
    kind: KindName | None = None
    unknown_share: Share | None = None
    error_share: Share | None = None
    lag: Annotated[timedelta, Field(gt=timedelta(0))] | None = None
    of_at_least: Annotated[int, Field(ge=1, le=1000)] = 10
    window: Annotated[timedelta, Field(gt=timedelta(0))] = timedelta(minutes=5)
    probe_after: Annotated[timedelta, Field(gt=timedelta(0))] = timedelta(minutes=1)
    probes: Annotated[int, Field(ge=1, le=100)] = 3

    @model_validator(mode="after")
    def _closes_on_something(self) -> Breaker:
        if self.unknown_share is None and self.error_share is None and self.lag is None:
            msg = "a breaker needs at least one of unknown_share, error_share and lag"
            raise ValueError(msg)
        return self

    def fits(self, partition: str, kind: str | None = None) -> bool:
        """Whether it is about this partition, and about this kind if one is named."""
        if self.partition not in {None, partition}:
            return False
        return kind is None or self.kind in {None, kind}


class Trip(Value):
    """A rule wants a gate closed.

    Attributes:
        reason: The rule and its numbers, for people.
        counted_for: Over how long that was counted: a gate that was opened since then stays open.
        lasts: The rule still holds, so a gate that is closed by the breaker is probed later.
    """

    partition: str
    rule: Rule
    reason: str
    counted_for: timedelta
    probes: int
    probe_after: timedelta
    lasts: bool = False


class Doubt(Value):
    """The effects of one kind in one partition that are in doubt.

    Attributes:
        oldest: How long the first of them has been so.
    """

    partition: str
    kind: str
    count: int
    oldest: timedelta


def trip_of(rule: Rule, breaker: Breaker, partition: str, numbers: str, over: timedelta) -> Trip:
    """The trip of one rule of a breaker, with the numbers on which it rests."""
    of = f" of kind {breaker.kind}" if breaker.kind is not None else ""
    return Trip(
        partition=partition,
        rule=rule,
        reason=f"{rule}{of}: {numbers}",
        counted_for=over,
        probes=breaker.probes,
        probe_after=breaker.probe_after,
        lasts=rule is Rule.LAG,
    )
