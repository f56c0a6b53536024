"""What a further run of a task is started with: after a long wait, or to ascertain what an ended one left."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ascertain.contracts.command import CommandAnswer
from ascertain.contracts.directive import RunQueued
from ascertain.contracts.status import TimelineEntry
from ascertain.contracts.task import StepResult, TaskOutcome
from ascertain.contracts.value import JsonObject, Moment, Value


class Shown(Value):
    """What people see of the task, so that a new history does not forget it.

    Attributes:
        labelled: Whether search attributes were written: a smooth task writes none.
    """

    state: str
    since: Moment
    error_class: str | None = None
    labelled: bool = False
    entries: tuple[TimelineEntry, ...] = ()
    refused: tuple[TimelineEntry, ...] = ()
    pending: tuple[TimelineEntry, ...] = ()


class Amendment(Value):
    """What a person replaced a step's input by."""

    revision: Annotated[int, Field(ge=1)]
    input: JsonObject


class Progress(Value):
    """What a run of a task is given over from an earlier one.

    Attributes:
        steps: What became of the steps that were done.
        undone: What became of the undo effects that were done.
        ending: The outcome, once no further step will start.
        route: Where the open effect runs, if not inline.
        only_ascertain: Find out what became of every effect that was begun, and begin none.
        begun_at: When the first run of the task was started.
        ended: The task had come to its end, which stands: it is not to be submitted again.
        cancelling: The earlier run was told to cancel.
        taking_back: Steps that a person ordered to be taken back, and that are not yet.
        amended: By step, what persons replaced its input by.
        given_up: A person had a step taken back, so that no further one starts.
        shown: What people saw of it.
        answered: The answers to commands by their request id, so that a repeat is applied once.
    """

    steps: tuple[StepResult, ...] = ()
    undone: tuple[StepResult, ...] = ()
    ending: TaskOutcome | None = None
    route: RunQueued | None = None
    only_ascertain: bool = False
    begun_at: Moment | None = None
    ended: bool = False
    cancelling: bool = False
    taking_back: tuple[str, ...] = ()
    amended: dict[str, Amendment] = Field(default_factory=dict)
    given_up: bool = False
    shown: Shown | None = None
    answered: dict[str, CommandAnswer] = Field(default_factory=dict)


class Continuation(Value):
    """What a further run of a task is started with, instead of the task's own JSON."""

    task: JsonObject
    progress: Progress
