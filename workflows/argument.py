"""Ends a workflow that was started with more than its one argument, which the SDK would try for ever."""

from __future__ import annotations

from typing import Any

from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)
from typing_extensions import override


class OneArgument(Interceptor):
    """What else is wrong with the argument, the workflow itself says."""

    @override
    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """The interceptor of each run."""
        return _OneArgument


class _OneArgument(WorkflowInboundInterceptor):
    @override
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        if len(input.args) > 1:
            message = (
                f"the workflow takes one argument, a task as JSON, and was given {len(input.args)}"
            )
            raise ApplicationError(message, type="InvalidTask", non_retryable=True)
        return await super().execute_workflow(input)
