"""What anybody may have given a workflow, taken so that nonsense is answered with a sentence.

What the SDK itself decodes, and what does not fit a handler's parameters, fails the workflow's task again and
again for ever. So every workflow, signal and update takes its arguments as they came and reads them here.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pydantic import BaseModel, ValidationError
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ExecuteWorkflowInput,
    HandleQueryInput,
    HandleSignalInput,
    HandleUpdateInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)
from typing_extensions import override

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts import names
    from ascertain.contracts.fault import faults

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from ascertain.contracts.replay import Said

    _Handler: TypeAlias = Callable[..., object]

NOTHING: Final = RawValue(Payload())

INVALID_TASK: Final = "InvalidTask"
INVALID_REQUEST: Final = "InvalidRequest"

ValueT = TypeVar("ValueT", bound=BaseModel)


class Arguments(Interceptor):
    """More arguments than are taken end a workflow, are refused of an update, and else are passed over.

    Tools add an empty one to signals and queries that take none.
    """

    @override
    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """The interceptor of each run."""
        return _Arguments


class _Arguments(WorkflowInboundInterceptor):
    @override
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        if len(input.args) > 1:
            message = f"the workflow takes one argument as JSON, and was given {len(input.args)}"
            is_task = workflow.info().workflow_type == names.TASK_WORKFLOW
            raise refusal(message, INVALID_TASK if is_task else INVALID_REQUEST)
        return await super().execute_workflow(input)

    @override
    async def handle_signal(self, input: HandleSignalInput) -> None:
        handler = cast("_Handler", workflow.get_signal_handler(input.signal))  # pyright: ignore[reportUnknownMemberType]  # the SDK's own
        input.args = input.args[: _most(handler)]
        await super().handle_signal(input)

    @override
    async def handle_query(self, input: HandleQueryInput) -> Any:
        handler = cast("_Handler", workflow.get_query_handler(input.query))  # pyright: ignore[reportUnknownMemberType]  # as above
        input.args = input.args[: _most(handler)]
        return await super().handle_query(input)

    @override
    def handle_update_validator(self, input: HandleUpdateInput) -> None:
        try:
            super().handle_update_validator(input)
        except TypeError:
            raise refusal(f"{input.update} does not take {len(input.args)} arguments") from None
        except ValueError as error:
            raise refusal(str(error)) from None


def _most(handler: _Handler) -> int | None:
    """How many arguments a handler takes; None: any number.

    An ``async`` one must itself take any number, for the SDK wraps it in a function that hides what it takes.
    """
    taken = inspect.signature(handler).parameters.values()
    any_number = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in taken)
    return None if any_number else len(taken)


def refusal(message: str, type_: str = INVALID_REQUEST) -> ApplicationError:
    """What ends a workflow, or answers an update: one sentence, with which no stack trace is stored."""
    return ApplicationError(message, type=type_, non_retryable=True)


def applied(what: str, answer: Said) -> Said:
    """What an update answers to a person's word.

    Raises:
        ApplicationError: ``CommandRefused``: it was not applied. The update fails, so that whoever gave the
            word sees it, with any client; the workflow goes on.
    """
    if not answer.applied:
        raise refusal(f"{what} refused: {answer.message}", names.COMMAND_REFUSED)
    return answer


def decoded(content: object) -> object:
    """The JSON that somebody gave; None if it cannot be read."""
    if not isinstance(content, RawValue):
        return content
    try:
        given: object = workflow.payload_converter().from_payload(content.payload)
    except Exception:  # noqa: BLE001  # a codec may raise anything over bytes that anybody sent
        return None
    return given


def argument(content: object, form: type[ValueT]) -> ValueT:
    """The one argument of a workflow.

    Raises:
        ApplicationError: ``InvalidRequest``; never repeats what was given.
    """
    try:
        return form.model_validate(decoded(content))
    except ValidationError as error:
        message = f"the workflow's one argument must be a {form.__name__}: {faults(error)}"
        raise refusal(message) from None


def said(content: object, form: type[ValueT]) -> ValueT:
    """What a person said by signal or update.

    Raises:
        ValueError: One sentence for who said it.
    """
    try:
        return form.model_validate(decoded(content))
    except ValidationError as error:
        msg = f"give one JSON object: {faults(error)}"
        raise ValueError(msg) from None
