"""The per-partition switch: open or paused. It stops dispatch, never asking."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from ascertain.contracts.effect import State
from ascertain.contracts.value import Partition, StrictValue, Value

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class GateRequest(StrictValue):
    """What the ``Gate`` workflow is started with: one JSON object, so that any tool can pause.

    Attributes:
        partition: Which; ``*`` is every partition.
        paused: The position wanted.
        operator: Who says so.
        reason: Why; shown to everybody who meets the closed gate.
        request_id: Repeats with the same id change nothing; without it each start is a request of its own.
    """

    partition: Partition | Literal["*"]
    paused: bool
    operator: Words
    reason: Words
    request_id: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None


class GateChange(Value):
    """A request to open or close a gate.

    Attributes:
        partition: Which; ``*`` is every partition.
        paused: The position wanted.
        by: The operator or the rule.
        request_id: A repeat with the same id is already applied, however late it comes.
    """

    partition: str
    paused: bool
    by: str
    reason: str
    request_id: str


class Gate(Value):
    """A gate as it stands. ``already_applied`` answers a repeated request.

    Attributes:
        rule: Which rule closed it; None while it is open, and where a person closed it.
        probe_from: From when a gate that a rule closed lets a few claims through.
        probe_after: How long it stays closed if one of them comes to nothing.
        probes: How many it lets through.
        probing: The effects that it has let through and whose answers are awaited.
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
    already_applied: bool = False


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
