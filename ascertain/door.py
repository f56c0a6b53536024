"""What may come in: a task is checked whole before anything of it is stored anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from ascertain import keys
from ascertain.contracts.fault import faults, near
from ascertain.contracts.task import Task
from ascertain.errors import InvalidTask, UnknownKind

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from pydantic import JsonValue

    from ascertain.contracts.value import JsonObject

MAX_INPUT_BYTES = 256 * 1024
MAX_TASK_BYTES = 1024 * 1024
MAX_DEPTH = 32

task_fingerprint = keys.task_fingerprint


def admit(candidate: Task | Mapping[str, JsonValue], kinds: Collection[str] | None = None) -> Task:
    """Check a task and give it back as a value.

    Args:
        candidate: A task, or its JSON.
        kinds: The kinds of effect that the deployment serves; None leaves that to the workers.

    Raises:
        InvalidTask: One sentence that names the task and the field. Nothing was stored.
        UnknownKind: A step or its undo names a kind that is not served.
    """
    task = candidate if isinstance(candidate, Task) else _parse(_object(candidate))
    _check_inputs(task)
    if kinds is not None:
        _check_kinds(task, kinds)
    return task


def in_time(task: Task, at: datetime) -> Task:
    """The task, if it may still be begun.

    Raises:
        InvalidTask: Its deadline has passed. Nothing was stored.
    """
    if task.deadline is not None and task.deadline <= at:
        passed = f"its deadline {task.deadline.isoformat()} has passed"
        raise InvalidTask(f"task {task.task_id!r}: {passed}, so nothing of it is begun")
    return task


def _object(candidate: object) -> Mapping[str, JsonValue]:
    """What anybody gave for a task's JSON, whatever its type says."""
    if not isinstance(candidate, Mapping):
        raise InvalidTask("a task must be a JSON object")
    return cast("Mapping[str, JsonValue]", candidate)


def _parse(candidate: Mapping[str, JsonValue]) -> Task:
    named = _name(candidate)
    if _depth_exceeds(candidate, MAX_DEPTH):
        raise InvalidTask(f"{named}: nested deeper than {MAX_DEPTH} levels")
    try:
        return Task.model_validate(candidate)
    except ValidationError as error:
        raise InvalidTask(f"{named}: {faults(error, 'task', form=Task)}") from None


def _name(candidate: Mapping[str, JsonValue]) -> str:
    task_id = candidate.get("task_id")
    return f"task {task_id[:128]!r}" if isinstance(task_id, str) else "task without a task_id"


def _depth_exceeds(value: JsonValue | Mapping[str, JsonValue], limit: int) -> bool:
    level: list[JsonValue | Mapping[str, JsonValue]] = [value]
    for _ in range(limit + 1):
        inner: list[JsonValue | Mapping[str, JsonValue]] = []
        for item in level:
            if isinstance(item, Mapping):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        if not inner:
            return False
        level = inner
    return True


def _check_inputs(task: Task) -> None:
    total = 0
    for name, content in _inputs(task):
        if _depth_exceeds(content, MAX_DEPTH):
            raise InvalidTask(
                f"task {task.task_id!r}: {name} is nested deeper than {MAX_DEPTH} levels"
            )
        try:
            size = len(keys.canonical(content))
        except InvalidTask as error:
            raise InvalidTask(f"task {task.task_id!r}: {name}: {error}") from error
        total += size
        if size > MAX_INPUT_BYTES or total > MAX_TASK_BYTES:
            limit = f"{MAX_INPUT_BYTES} bytes an input, {MAX_TASK_BYTES} a task"
            raise InvalidTask(
                f"task {task.task_id!r}: {name} is too large ({size} bytes; at most {limit}); "
                "store the content elsewhere and send its address"
            )


def _inputs(task: Task) -> list[tuple[str, JsonObject]]:
    found: list[tuple[str, JsonObject]] = []
    for step in task.steps:
        found.append((f"the input of step {step.name}", step.input))
        if step.undo is not None:
            found.append((f"the undo input of step {step.name}", step.undo.input))
    return found


def _check_kinds(task: Task, kinds: Collection[str]) -> None:
    named = {step.kind for step in task.steps}
    named |= {step.undo.kind for step in task.steps if step.undo is not None}
    missing = ", ".join(f"{kind}{near(kind, kinds)}" for kind in sorted(named - set(kinds)))
    if missing:
        raise UnknownKind(
            f"task {task.task_id!r}: no such kind of effect here: {missing}; "
            f"this deployment serves {', '.join(sorted(kinds)) or 'none'}"
        )
