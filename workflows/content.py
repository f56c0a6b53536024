"""What a task's content says: whether it may come in, its steps' effects, and what a person makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from ascertain.contracts import names
    from ascertain.contracts.continuation import Amendment, Continuation, Progress
    from ascertain.contracts.effect import Effect, Undone
    from ascertain.contracts.fault import faults
    from ascertain.contracts.task import Task
    from ascertain.contracts.value import JsonObject
    from ascertain.contracts.work import Decision
    from ascertain.errors import InvalidTask

from ascertain import keys
from ascertain.door import admit, in_time
from workflows.argument import INVALID_TASK, decoded, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ascertain.contracts.command import Command
    from ascertain.contracts.task import Step, StepResult


def admit_input(task: Task, effect: Effect, changed: JsonObject) -> None:
    """The door's rules hold for an amended input too; a ValueError says which one it breaks."""
    step = next(
        step for step in task.steps if effect.step in {step.name, keys.undo_step(step.name)}
    )
    if effect.undoes is not None and step.undo is not None:
        amended = step.model_copy(update={"undo": step.undo.model_copy(update={"input": changed})})
    else:
        amended = step.model_copy(update={"input": changed})
    steps = tuple(amended if known is step else known for known in task.steps)
    try:
        admit(task.model_copy(update={"steps": steps}))
    except InvalidTask as error:
        raise ValueError(str(error)) from None


def decision_about(effect: Effect, command: Command) -> Decision:
    """A command with what an activity must know of it: for an amendment the effect that comes instead."""
    if command.input is None:
        return Decision(effect=effect, command=command)
    by = Amendment(revision=effect.revision + 1, input=command.input)
    return Decision(effect=effect, command=command, amended=as_amended(effect, {effect.step: by}))


def admitted(content: RawValue) -> tuple[Task, Progress]:
    """The task, by the same rules as at the client's door, and what an earlier run gives over.

    Raises:
        ApplicationError: ``InvalidTask``; one sentence that never repeats what was given.
    """
    try:
        known, progress = _read(decoded(content))
    except ValidationError as error:
        raise refusal(f"not a continuation: {faults(error)}", INVALID_TASK) from None
    except InvalidTask as error:
        raise refusal(str(error), INVALID_TASK) from None
    if known.task_id != workflow.info().workflow_id:
        message = (
            f"the workflow id {workflow.info().workflow_id} must be the task_id {known.task_id}"
        )
        raise refusal(message, INVALID_TASK)
    return known, progress


def _read(content: object) -> tuple[Task, Progress]:
    given = cast("JsonObject", content if isinstance(content, dict) else {})
    if set(given) != set(Continuation.model_fields):
        begun = admit(cast("JsonObject", content))
        return in_time(begun, workflow.info().workflow_start_time), Progress()
    continuation = Continuation.model_validate(given)
    task, progress = admit(continuation.task), continuation.progress
    done = {result.step for result in progress.steps}
    fits = done <= {step.name for step in task.steps} and done >= set(progress.taking_back)
    if not fits or len(progress.steps) > len(task.steps):
        raise InvalidTask(f"task {task.task_id!r}: its progress names steps that it does not have")
    return task, progress


def given_on() -> Progress:
    """When an earlier run was started, and what persons said to it, if whoever started this one said so.

    Raises:
        ApplicationError: ``InvalidTask``: what was said is no time, no amendments or no steps.
    """
    begun_at = _memo(names.MEMO_BEGUN_AT, "begun_at", None, "a time such as 2027-01-31T18:00:00Z")
    form = 'by step its new revision and input: {"STEP": {"revision": 1, "input": {}}}'
    amended = _memo(names.MEMO_AMENDED, "amended", {}, form)
    ordered = _memo(names.MEMO_GIVEN_UP, "taking_back", (), 'names of steps: ["STEP"]')
    said = {"amended": amended.amended, "taking_back": ordered.taking_back}
    return begun_at.model_copy(update=said)


def memo_so_far() -> dict[str, object]:
    """What the memo says by now, as it is: somebody may have put into it what cannot be read here."""
    return {name: RawValue(told) for name, told in workflow.info().raw_memo.items()}


def _memo(name: str, field: str, default: object, form: str) -> Progress:
    try:
        told = workflow.memo_value(name, default=default, type_hint=object)
        return Progress.model_validate({field: told})
    except Exception:  # noqa: BLE001  # a codec may raise anything over bytes that anybody sent
        raise refusal(f"the memo {name} must be {form}", INVALID_TASK) from None


def as_amended(effect: Effect, amended: Mapping[str, Amendment]) -> Effect:
    """The effect that is pursued: with a person's input, where one replaced it."""
    by = amended.get(effect.step)
    if by is None:
        return effect
    namespace = workflow.info().namespace
    changes = {
        "effect_id": keys.effect_id(namespace, effect.task_id, effect.step, by.revision),
        "revision": by.revision,
        "input": by.input,
    }
    return effect.model_copy(update=changes)


def effect_of(task: Task, step: Step) -> Effect:
    """The effect of a step, as it was first asked for."""
    return keys.effect_of(workflow.info().namespace, task, step)


def undo_of(task: Task, done: StepResult) -> Effect | None:
    """The effect that takes a settled step back; None if it declares none."""
    step = next(step for step in task.steps if step.name == done.step)
    if step.undo is None or done.receipt is None:
        return None
    name = keys.undo_step(step.name)
    return Effect(
        effect_id=keys.effect_id(workflow.info().namespace, task.task_id, name, 0),
        task_id=task.task_id,
        step=name,
        kind=step.undo.kind,
        partition=task.partition,
        message_id=task.message_id,
        input=step.undo.input,
        undoes=Undone(effect_id=done.effect_id, external_id=done.receipt.external_id),
        task_fingerprint=keys.task_fingerprint(task),
    )
