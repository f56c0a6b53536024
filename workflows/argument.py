"""What anybody may have started a workflow with, taken so that nonsense ends it with a sentence.

A workflow whose argument the SDK itself decodes fails its first workflow task for ever on nonsense.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)
from typing_extensions import override

NOTHING = RawValue(Payload())

ValueT = TypeVar("ValueT", bound=BaseModel)


class OneArgument(Interceptor):
    """Ends what was started with more than one argument; what else is wrong, the workflow itself says."""

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


def argument(content: RawValue, form: type[ValueT]) -> ValueT:
    """The one argument of a workflow.

    Raises:
        ApplicationError: ``InvalidRequest``; never repeats what was given.
    """
    try:
        given: object = workflow.payload_converter().from_payload(content.payload)
    except Exception:  # noqa: BLE001  # a codec may raise anything over bytes that anybody sent
        given = None
    try:
        return form.model_validate(given)
    except ValidationError as error:
        message = f"the workflow's one argument must be a {form.__name__}: {sentence(error)}"
        raise ApplicationError(message, type="InvalidRequest", non_retryable=True) from None


def said(content: object, form: type[ValueT]) -> ValueT:
    """What a person said by signal or update.

    Raises:
        ValueError: One sentence for who said it.
    """
    try:
        return form.model_validate(content)
    except ValidationError as error:
        msg = f"give one JSON object: {sentence(error)}"
        raise ValueError(msg) from None


def sentence(error: ValidationError) -> str:
    """The first faults, without what was given."""
    faults = error.errors(include_input=False, include_url=False)[:3]
    return "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or 'value'}: {fault['msg']}"
        for fault in faults
    )
