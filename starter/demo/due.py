"""What should exist outside once every task is over, worked out from the tasks alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ascertain.keys import effect_id, undo_step
from starter.demo.compare import Due, What

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ascertain.contracts.task import Step, Task

# The outside's own test card that is charged in vain. What it makes of it is asked at the end.
DECLINING: Final = frozenset({"pm_card_chargeCustomerFail"})


def dues(tasks: Iterable[Task], namespace: str) -> tuple[Due, ...]:
    """Every effect that should exist or be refused, in the order of the tasks and of their steps.

    A refused step ends its task: what follows is never asked for, and what came before is taken back
    where the task says how.
    """
    return tuple(due for task in tasks for due in _of_task(task, namespace))


def _of_task(task: Task, namespace: str) -> Iterator[Due]:
    settled: list[tuple[Step, Due]] = []
    for step in task.steps:
        due = _charge(task, step, namespace)
        yield due
        if not due.exists:
            yield from _undone(task, settled, namespace)
            return
        settled.append((step, due))


def _charge(task: Task, step: Step, namespace: str) -> Due:
    return Due(
        effect_id=effect_id(namespace, task.task_id, step.name, 0),
        task_id=task.task_id,
        step=step.name,
        what=What.CHARGE,
        amount=int(str(step.input["amount"])),
        currency=str(step.input["currency"]),
        exists=step.input["payment_method"] not in DECLINING,
    )


def _undone(task: Task, settled: list[tuple[Step, Due]], namespace: str) -> Iterator[Due]:
    for step, due in reversed(settled):
        if step.undo is None:
            continue
        name = undo_step(step.name)
        yield Due(
            effect_id=effect_id(namespace, task.task_id, name, 0),
            task_id=task.task_id,
            step=name,
            what=What.REFUND,
            amount=due.amount,
            currency=due.currency,
            undoes=due.effect_id,
        )
