"""A replay: which effects, how fast, what became of each. This JSON is public: ``temporal`` may send it."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from ascertain.contracts.effect import State
from ascertain.contracts.value import (
    EffectId,
    KindName,
    Partition,
    Span,
    StrictValue,
    TaskId,
    Value,
    Words,
)


class Outlook(StrEnum):
    """What the dry run says of an item: what a retry of it would come to."""

    THERE = "THERE"
    ABSENT = "ABSENT"
    KEY_ALIVE = "KEY_ALIVE"
    KEY_EXPIRED = "KEY_EXPIRED"
    UNKNOWN = "UNKNOWN"
    MOVED = "MOVED"


class Result(StrEnum):
    """What became of an item.

    ``WAITING`` its turn is not yet · ``STARTED`` its task was told · ``FOUND`` it existed already ·
    ``DONE`` it was absent and is done now · ``REFUSED`` the outside said no for good · ``QUARANTINED`` it
    came back to a person · ``OPEN`` it did not come to rest in time and goes on by itself · ``MOVED``
    somebody else moved it, so the replay kept its hands off · ``LEFT`` not touched, the detail says why.
    """

    WAITING = "WAITING"
    STARTED = "STARTED"
    FOUND = "FOUND"
    DONE = "DONE"
    REFUSED = "REFUSED"
    QUARANTINED = "QUARANTINED"
    OPEN = "OPEN"
    MOVED = "MOVED"
    LEFT = "LEFT"


# What the replay's own doing came to, and which of it speaks against going on.
ACTED = frozenset(
    {Result.FOUND, Result.DONE, Result.REFUSED, Result.QUARANTINED, Result.OPEN, Result.STARTED}
)
ERRORS = frozenset({Result.REFUSED, Result.QUARANTINED, Result.OPEN})


# Why a replay waits after its dry run, alone and as a step of an incident.
ASKED: Final = "the dry run is done; `resume` begins with the canary"
ASKED_FOR_INCIDENT: Final = (
    "the dry run is done; the approval of the incident's step `replay` begins with the canary"
)


class Selection(StrictValue):
    """Which effects; None and empty do not restrict. Explicit ids are still subject to ``states``."""

    partition: Partition | None = None
    kind: KindName | None = None
    error_class: Annotated[str, Field(max_length=100)] | None = None
    states: tuple[Literal[State.QUARANTINED, State.UNKNOWN], ...] = (State.QUARANTINED,)
    task_ids: Annotated[tuple[TaskId, ...], Field(max_length=5000)] = ()
    effect_ids: Annotated[tuple[EffectId, ...], Field(max_length=5000)] = ()


class Pace(StrictValue):
    """How carefully.

    Attributes:
        canary: Items of the first batch.
        batch: Items of every later batch; the next one begins when all of one have come to rest.
        rate: Most items a second that are told to go on.
        ask_rate: Most items a second that are asked for in the dry run; None: as many as ``rate``.
        stop_share: The replay pauses itself when a larger share than this came to an error.
        patience: How long a batch may take to come to rest after its last item was told.
    """

    canary: Annotated[int, Field(ge=1, le=1000)] = 5
    batch: Annotated[int, Field(ge=1, le=1000)] = 50
    rate: Annotated[float, Field(gt=0, le=1000)] = 5.0
    ask_rate: Annotated[float, Field(gt=0, le=1000)] | None = None
    stop_share: Annotated[float, Field(ge=0, le=1)] = 0.2
    patience: Span = timedelta(minutes=5)


class Tally(Value):
    """How many items the dry run saw how, and how many came to what. Both add up to ``items``."""

    items: int = 0
    outlooks: dict[str, int] = Field(default_factory=dict)
    results: dict[str, int] = Field(default_factory=dict)

    def of(self, results: frozenset[Result]) -> int:
        """How many items came to one of these."""
        return sum(count for result, count in self.results.items() if result in results)


class Phase(StrEnum):
    """How far a replay is."""

    SELECTING = "SELECTING"
    ASKING = "ASKING"
    CANARY = "CANARY"
    BATCHES = "BATCHES"
    DONE = "DONE"


class Said(Value):
    """Whether a person's word was applied, and what holds now."""

    applied: bool
    message: str


class ReplayProgress(Value):
    """What a run of a replay is given over from an earlier one; everything else stands in the ledger.

    Attributes:
        batch: The number of the next batch; 0 is the canary.
        forgiven: How many errors, of how many items, a person has seen and resumed after.
        paused: Why nothing goes on now, by whom; None while it runs.
        answered: The answers to persons' words by their request id, so that a repeat is applied once.
    """

    phase: Phase = Phase.SELECTING
    batch: int = 0
    forgiven: tuple[int, int] = (0, 0)
    paused: str | None = None
    tally: Tally = Tally()
    answered: dict[str, Said] = Field(default_factory=dict)


class ReplayRequest(StrictValue):
    """What a replay is started with.

    Attributes:
        go_on: Go on to the canary without waiting for ``resume`` after the dry run.
        progress: Set only by an earlier run of the same replay.
    """

    operator: Words
    reason: Words
    selection: Selection = Selection()
    pace: Pace = Pace()
    go_on: bool = False
    progress: ReplayProgress = ReplayProgress()


class Say(StrictValue):
    """A person's word to a replay or an incident.

    Attributes:
        request_id: Repeats with the same id are applied once.
    """

    operator: Words
    reason: Words
    request_id: Annotated[str, StringConstraints(max_length=100)] | None = None


class ReplayStatus(Value):
    """Where a replay stands.

    Attributes:
        paused: Why nothing goes on now; None while it runs.
        incident: The id of the incident that it is a step of; None: it stands alone.
        tally: Of when its last batch had ended. How the items stand now says the ledger, by which
            ``ascertain replay status`` counts.
    """

    replay_id: str
    phase: Phase
    paused: str | None = None
    incident: str | None = None
    operator: str = ""
    reason: str = ""
    selection: Selection = Selection()
    pace: Pace = Pace()
    tally: Tally = Tally()


class Item(Value):
    """One effect of a replay.

    Attributes:
        state: In which it was selected.
        version: At which it was selected: a retry is for exactly this.
        attempt: Attempts before the replay: more than these and it was done again.
        batch: In which it was told; 0 is the canary.
    """

    effect_id: EffectId
    task_id: TaskId
    kind: str
    partition: str
    state: State
    version: int
    attempt: int
    outlook: Outlook | None = None
    batch: int | None = None
    result: Result = Result.WAITING
    detail: str = ""


class Group(Value):
    """Items of one kind that are still to be asked for, and the task queue whose workers can."""

    kind: str
    queue: str | None = None
    items: int = 0


class Select(Value):
    """Argument of the selecting activity."""

    replay_id: str
    selection: Selection


class Selected(Value):
    """What was selected."""

    groups: tuple[Group, ...]
    tally: Tally


class Ask(Value):
    """Argument of the asking activity: the next items of one kind."""

    replay_id: str
    kind: str
    rate: float
    limit: int


class Act(Value):
    """Argument of the acting activity: one batch.

    Attributes:
        through_gate: Whether the batch passes the closed gate of its partition: an approved incident's.
    """

    replay_id: str
    operator: str
    reason: str
    batch: int
    limit: int
    rate: float
    patience: timedelta
    through_gate: bool = False
