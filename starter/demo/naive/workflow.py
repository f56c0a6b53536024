"""The naive workflow: each step an ordinary activity with Temporal's own retries."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts.task import Task, TaskOutcome
    from ascertain.contracts.value import JsonObject, Value

from ascertain.keys import effect_id, undo_step

if TYPE_CHECKING:
    from ascertain.contracts.task import Step

WORKFLOW: Final = "NaivePayment"
TASK_QUEUE: Final = "naive"
CHARGE: Final = "naive_charge"
REFUND: Final = "naive_refund"
_ATTEMPT: Final = timedelta(seconds=5)


class Order(Value):
    """What one activity is to do.

    Attributes:
        effect_id: Sent along only so that the books can be read by the same rule; nothing else uses it.
        content: The step's input, or for a refund the id of the payment.
    """

    effect_id: str
    content: JsonObject


@workflow.defn(name=WORKFLOW)
class NaivePayment:
    """Makes the charges of a task, and refunds them if a later one is declined."""

    @workflow.run
    async def run(self, content: JsonObject) -> str:
        """``DONE`` or ``REFUSED``."""
        task = Task.model_validate(content)
        paid: list[tuple[Step, str]] = []
        try:
            for step in task.steps:
                paid.append((step, await _activity(CHARGE, task, step.name, step.input)))  # noqa: PERF401
        except ActivityError:
            for step, payment in reversed(paid):
                if step.undo is not None:
                    await _activity(REFUND, task, undo_step(step.name), {"payment_intent": payment})
            return TaskOutcome.REFUSED.value
        return TaskOutcome.DONE.value


async def _activity(name: str, task: Task, step: str, content: JsonObject) -> str:
    """Run an activity; it is repeated as Temporal repeats by default, which is for ever."""
    effect = effect_id(workflow.info().namespace, task.task_id, step, 0)
    answer: str = await workflow.execute_activity(
        name,
        Order(effect_id=effect, content=content),
        result_type=str,
        start_to_close_timeout=_ATTEMPT,
    )
    return answer
