"""An incident: the five steps in their order, a person's approval before each, and what each came to."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from ascertain.contracts.effect import State
from ascertain.contracts.gate import Ramp
from ascertain.contracts.replay import Pace, Say, Tally
from ascertain.contracts.value import Partition, Span, StrictValue, Value, Words

PREFIX: Final = "incident-"


class Step(StrEnum):
    """The steps, in the only order that there is."""

    PAUSE = "pause"
    SNAPSHOT = "snapshot"
    RECONCILE = "reconcile"
    REPLAY = "replay"
    RESUME = "resume"


class IncidentRequest(StrictValue):
    """What an incident is opened with; this approves the first step, the pause.

    Attributes:
        pace: Of the questions and of the replay.
        settle_within: How long what is in doubt may take to come to rest after it was asked for.
        wake_rate: Held tasks woken a second at the end.
        ramp: Over how long the gate opens little by little at the end; None: at once.
    """

    operator: Words
    reason: Words
    partition: Partition
    pace: Pace = Pace()
    settle_within: Span = timedelta(minutes=1)
    wake_rate: Annotated[float, Field(gt=0, le=10_000)] = 20.0
    ramp: Ramp | None = None

    @property
    def incident_id(self) -> str:
        """A partition has one incident at a time."""
        return f"{PREFIX}{self.partition}"


class Approval(Say):
    """A person lets the next step begin, and says which one that is."""

    step: Step


class StepDone(Value):
    """A step that is over, by whose approval, and what it came to."""

    step: Step
    operator: str
    reason: str
    at: datetime
    detail: str


class SnapshotTaken(Value):
    """Where the incident's snapshot is, and the digest by which it is known.

    Attributes:
        worker: The process that wrote it, on whose machine the path is.
    """

    path: str
    sha256: str
    worker: str
    counts: dict[str, int]


class IncidentStatus(Value):
    """Where an incident stands.

    Attributes:
        doing: The step that is under way.
        waiting_for: The step that begins once a person approves it.
        tally: Of the replay, as it was last told: after its dry run, and at its end.
        refused: Words sent as signals that were not applied.
        approved: The step that was last approved under each request id: a repeat that names no step means it.
    """

    incident_id: str
    partition: str
    operator: str
    reason: str
    doing: Step | None = None
    waiting_for: Step | None = None
    done: tuple[StepDone, ...] = ()
    snapshot: SnapshotTaken | None = None
    replay_id: str | None = None
    tally: Tally | None = None
    closed: Say | None = None
    refused: tuple[str, ...] = ()
    approved: dict[str, Step] = Field(default_factory=dict)


class GateOrder(Value):
    """Argument of the pausing and the resuming activity."""

    partition: str
    operator: str
    reason: str
    request_id: str
    wake_rate: float = 20.0
    ramp: timedelta | None = None


class SnapshotOrder(Value):
    """Argument of the snapshot activity; the same name is the same archive, written anew."""

    partition: str
    name: str


class ReconcileOrder(Value):
    """Argument of the reconciling activity."""

    partition: str
    rate: float
    settle_within: timedelta


class Reconciled(Value):
    """How many tasks were asked, and how the partition's unresolved effects stand now."""

    asked: int
    standing: dict[State, int]
