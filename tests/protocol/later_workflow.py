"""The task workflow of a later release: it does something that no earlier one did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.common import RawValue
from typing_extensions import override

from ascertain.contracts import names
from ascertain.contracts.task import StepResult, TaskResult
from workflows.task import NOTHING, TaskWorkflow

if TYPE_CHECKING:
    from ascertain.contracts.effect import Effect

LATER = "rests-before-each-step"


@workflow.defn(name=names.TASK_WORKFLOW)
class LaterTaskWorkflow(TaskWorkflow):
    """The same, but for a timer before each step."""

    @workflow.run
    @override
    async def run(self, content: RawValue = NOTHING) -> TaskResult:
        return await super().run(content)

    @override
    async def _pursue(self, effect: Effect) -> StepResult:
        if workflow.patched(LATER):
            await workflow.sleep(0.01)
        return await super()._pursue(effect)
