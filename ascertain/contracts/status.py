"""What a task says of itself when it is asked, and the line of time it keeps."""

from __future__ import annotations

from datetime import datetime

from ascertain.contracts.directive import Standing
from ascertain.contracts.task import StepResult, TaskOutcome
from ascertain.contracts.value import Value


class OpenEffect(Value):
    """The effect that the task is at.

    Attributes:
        doing: ``perform`` at first, then the type of the directive that the task follows.
        error_class: What keeps it from the happy path; ``unserved`` if no worker knows its kind.
        turn_at: When its turn comes in a gate that opens little by little.
        gate: Whose gate stopped it at its last look; ``*``: that of every partition. None: none did, or an
            earlier release tells.
    """

    step: str
    effect_id: str
    kind: str
    doing: str
    reason: str = ""
    since: datetime
    error_class: str | None = None
    standing: Standing | None = None
    turn_at: datetime | None = None
    gate: str | None = None


class TimelineEntry(Value):
    """One thing that happened to the task, in plain words."""

    at: datetime
    step: str
    what: str
    detail: str = ""


class TaskStatus(Value):
    """Where a task stands.

    Attributes:
        state: The state of the open effect, ``RUNNING`` on the happy path, or the outcome.
        only_ascertains: This run finds out what an ended one had begun, and begins nothing.
        deadline: From then on it begins nothing.
        undoable: Settled steps that a person may have taken back: they declare an undo and still have it.
        open: The effect that it is at; None before the first step and after the last.
        refused_commands: Commands sent as signals that were not applied, with the reason.
        pending_commands: Commands that wait for the same one of a second person.
    """

    task_id: str
    kind: str
    partition: str
    state: str
    cancelling: bool = False
    only_ascertains: bool = False
    deadline: datetime | None = None
    outcome: TaskOutcome | None = None
    steps: tuple[StepResult, ...] = ()
    undone: tuple[StepResult, ...] = ()
    undoable: tuple[StepResult, ...] = ()
    open: OpenEffect | None = None
    refused_commands: tuple[TimelineEntry, ...] = ()
    pending_commands: tuple[TimelineEntry, ...] = ()


class Timeline(Value):
    """The latest things that happened to the task, oldest first."""

    entries: tuple[TimelineEntry, ...]
