"""The per-partition switch: open or paused. It stops dispatch, never asking."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, StringConstraints

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
    """A gate as it stands. ``already_applied`` answers a repeated request."""

    partition: str
    paused: bool
    since: AwareDatetime
    by: str
    reason: str
    already_applied: bool = False


class GateAnswer(Value):
    """A gate after a request, and the attempts that may still send behind it.

    Attributes:
        in_flight: How many; 0: the partition is drained.
        may_send_until: Until when the last of them may.
    """

    gate: Gate
    in_flight: int = 0
    may_send_until: AwareDatetime | None = None
