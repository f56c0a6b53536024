"""The per-partition switch: open or paused. It stops dispatch, never asking."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, Field, StringConstraints, model_validator

from ascertain.contracts.effect import State
from ascertain.contracts.value import Partition, StrictValue, Value, Words

Ramp = Annotated[timedelta, Field(gt=timedelta(0), le=timedelta(days=7))]


def _opens(paused: bool, ramp: timedelta | None) -> None:  # noqa: FBT001  # the two fields
    if paused and ramp is not None:
        raise ValueError("a gate is closed at once: a ramp is for opening it")


class Position(StrEnum):
    """How a gate stands for those who want to dispatch.

    ``opening`` lets through whose turn has come, ``half-open`` the few that probe.
    """

    OPEN = "open"
    OPENING = "opening"
    HALF_OPEN = "half-open"
    PAUSED = "paused"


class GateRequest(StrictValue):
    """What the ``Gate`` workflow is started with: one JSON object, so that any tool can pause.

    Attributes:
        partition: Which; ``*`` is every partition.
        paused: The position wanted.
        operator: Who says so.
        reason: Why; shown to everybody who meets the closed gate.
        request_id: Repeats with the same id change nothing; without it each start is a request of its own.
        ramp: Open little by little, over so long.
    """

    partition: Partition | Literal["*"]
    paused: bool
    operator: Words
    reason: Words
    request_id: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    ramp: Ramp | None = None

    @model_validator(mode="after")
    def _ramp_opens(self) -> Self:
        _opens(self.paused, self.ramp)
        return self


class GateChange(Value):
    """A request to open or close a gate.

    Attributes:
        partition: Which; ``*`` is every partition.
        paused: The position wanted.
        by: The operator or the rule.
        request_id: A repeat with the same id is already applied, however late it comes.
        ramp: Over how long a gate that is closed, or opening yet, opens little by little; None: at once.
    """

    partition: str
    paused: bool
    by: str
    reason: str
    request_id: str
    ramp: Ramp | None = None

    @model_validator(mode="after")
    def _ramp_opens(self) -> Self:
        _opens(self.paused, self.ramp)
        return self


class Gate(Value):
    """A gate as it stands. ``already_applied`` answers a repeated request.

    Attributes:
        rule: Which rule closed it; None while it is open, and where a person closed it.
        probe_from: From when a gate that a rule closed lets a few claims through.
        probe_after: How long it stays closed if one of them comes to nothing.
        probes: How many it lets through.
        probing: The effects that it has let through and whose answers are awaited.
        ramp_until: Until then a gate that was opened at ``since`` lets through only whose turn has come.
    """

    partition: str
    paused: bool
    since: AwareDatetime
    by: str
    reason: str
    rule: str | None = None
    probes: int = 0
    probe_after: timedelta | None = None
    probe_from: AwareDatetime | None = None
    probing: tuple[str, ...] = ()
    ramp_until: AwareDatetime | None = None
    already_applied: bool = False

    def position(self, now: datetime) -> Position:
        """How it stands."""
        if not self.paused:
            return Position.OPENING if self.share(now) < 1 else Position.OPEN
        due = self.rule is not None and self.probe_from is not None and self.probe_from <= now
        return Position.HALF_OPEN if due or self.probing else Position.PAUSED

    def share(self, now: datetime) -> float:
        """How much of it is open, from 0 to 1: the part of a ramp that is over."""
        if self.paused or self.ramp_until is None:
            return float(not self.paused)
        return min(max((now - self.since) / (self.ramp_until - self.since), 0.0), 1.0)


class GateAnswer(Value):
    """A gate after a request, and the attempts that may still act behind it.

    Attributes:
        in_flight: How many have not reported back; one that can send no more may have sent, and what that
            comes to is still open. 0: the partition is drained.
        may_send_until: Until when the last of them may send; None: none can.
    """

    gate: Gate
    in_flight: int = 0
    may_send_until: AwareDatetime | None = None


class PartitionStanding(Value):
    """A partition: its own gate, and its open effects.

    Attributes:
        gate: None if its own gate was never closed. ``*`` stands for the gate of all partitions.
        in_flight: Attempts that have not reported back, whether or not they can still send.
        sending_until: Until then one of them may still send; None: there is none.
        states: How many effects stand in each state that is not final.
    """

    partition: str
    gate: Gate | None = None
    in_flight: int = 0
    sending_until: AwareDatetime | None = None
    states: dict[State, int] = Field(default_factory=dict)

    @property
    def drained(self) -> bool:
        """Whether nothing of it is in flight any more."""
        return self.in_flight == 0
