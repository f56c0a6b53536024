"""The task workflow of a later release: it does something that no earlier one did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.common import RawValue
from typing_extensions import override

from ascertain.contracts import names
from ascertain.contracts.task import StepResult, Task, TaskResult
from workflows.argument import NOTHING
from workflows.course import Course
from workflows.takeover import Takeover
from workflows.task import TaskWorkflow

if TYPE_CHECKING:
    from ascertain.contracts.effect import Effect

LATER = "rests-before-each-step"


class _LaterCourse(Course):
    @override
    async def _pursue(self, task: Task, effect: Effect) -> StepResult:
        if workflow.patched(LATER):
            await workflow.sleep(0.01)
        return await super()._pursue(task, effect)


@workflow.defn(name=names.TASK_WORKFLOW)
class LaterTaskWorkflow(TaskWorkflow):
    """The same, but for a timer before each step."""

    def __init__(self) -> None:
        super().__init__()
        self._course = _LaterCourse(self._view, self._obeying)
        self._takeover = Takeover(self._course, self._view)

    @workflow.run
    @override
    async def run(self, content: RawValue = NOTHING) -> TaskResult:
        return await super().run(content)
