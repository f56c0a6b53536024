"""What a service asks for: a task and its steps. This JSON is public: any language may send it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictBool, model_validator

from ascertain.contracts.effect import Receipt, State
from ascertain.contracts.value import (
    EffectId,
    JsonObject,
    KindName,
    MessageId,
    Moment,
    Partition,
    StepName,
    StrictValue,
    TaskId,
    Value,
)

MAX_STEPS = 50


class Undo(StrictValue):
    """The effect that takes a step back if a later step is refused.

    The adapter is told the id outside of the effect it undoes, so ``input`` may be empty.
    """

    kind: KindName
    input: JsonObject = Field(default_factory=dict)


class Step(StrictValue):
    """One named effect of a task."""

    name: StepName
    kind: KindName
    input: JsonObject = Field(default_factory=dict)
    undo: Undo | None = None


class Task(StrictValue):
    """One task is one Temporal workflow whose workflow id is ``task_id``.

    Attributes:
        task_id: 1 to 128 characters of ``[A-Za-z0-9._:@/-]``; the caller's own id of the matter.
        kind: The business name of the task, for people and search; effects have kinds of their own.
        partition: What is paused and resumed together, for example one provider account.
        steps: 1 to 50, in order, with distinct names.
        message_id: The id of the message that asked for it, for counting deliveries.
        undo_on_cancel: Whether a cancelled task takes back the steps that had been settled.
        deadline: From then on no further effect is begun, and the task ends as one that was cancelled.
            What is under way by then is let finish, and ascertained however long that takes.
    """

    task_id: TaskId
    kind: KindName
    partition: Partition = "default"
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=MAX_STEPS)]
    message_id: MessageId | None = None
    undo_on_cancel: StrictBool = False
    deadline: Moment | None = None

    @model_validator(mode="after")
    def _distinct_step_names(self) -> Task:
        names = [step.name for step in self.steps]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"step names must be distinct; used more than once: {', '.join(twice)}"
            raise ValueError(msg)
        return self


class TaskOutcome(StrEnum):
    """How a task ended. ``DONE``: every step's effect exists."""

    DONE = "DONE"
    REFUSED = "REFUSED"
    ABANDONED = "ABANDONED"
    CANCELLED = "CANCELLED"


class StepResult(Value):
    """What became of one effect: its final state, and the receipt where it exists."""

    step: str
    effect_id: EffectId
    state: State
    receipt: Receipt | None = None
    reason: str = ""


class TaskResult(Value):
    """What became of a task.

    Attributes:
        outcome: ``DONE`` only if every step is ``SETTLED``.
        steps: One entry for every step that was begun, in order.
        undone: One entry for every undo effect, in the order they ran (last step first).
    """

    task_id: TaskId
    outcome: TaskOutcome
    steps: tuple[StepResult, ...]
    undone: tuple[StepResult, ...] = ()
