"""A task as a Nexus operation: workflows of other namespaces ask for it, and wait for its result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nexusrpc import HandlerError, HandlerErrorType
from nexusrpc.handler import service_handler
from temporalio import nexus
from temporalio.common import RawValue, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from ascertain.contracts import names
from ascertain.contracts.task import TaskResult
from ascertain.door import admit, in_time, task_fingerprint
from ascertain.errors import InputError, InvalidTask
from ascertain.starting import search_attributes

if TYPE_CHECKING:
    from collections.abc import Collection

    from ascertain.contracts.value import JsonObject


@service_handler(name=names.NEXUS_SERVICE)
class TaskService:
    """Starts tasks of this deployment for others."""

    def __init__(self, task_queue: str, kinds: Collection[str] | None) -> None:
        """Say where tasks run, and which kinds of effect are let in; None: any."""
        self._task_queue = task_queue
        self._kinds = kinds

    @nexus.workflow_run_operation(name=names.NEXUS_TASK)
    async def task(
        self, context: nexus.WorkflowRunOperationContext, content: RawValue
    ) -> nexus.WorkflowHandle[TaskResult]:
        """Start the task; the operation ends with its result.

        Raises:
            HandlerError: ``BAD_REQUEST``: a rule of the door is broken; nothing was started.
                ``CONFLICT``: a task of this id was started before. Neither is tried again.
        """
        try:
            task = in_time(admit(_read(content), self._kinds), datetime.now(UTC))
        except InputError as error:
            raise HandlerError(str(error), type=HandlerErrorType.BAD_REQUEST) from None
        try:
            return await context.start_workflow(
                names.TASK_WORKFLOW,
                task.model_dump(mode="json", exclude_defaults=True),
                id=task.task_id,
                task_queue=self._task_queue,
                result_type=TaskResult,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                memo={
                    names.MEMO_FINGERPRINT: task_fingerprint(task),
                    names.MEMO_MESSAGE_ID: task.message_id,
                },
                search_attributes=search_attributes(task),
            )
        except WorkflowAlreadyStartedError:
            raise HandlerError(
                f"task {task.task_id!r} was started before; ask for its result by its id",
                type=HandlerErrorType.CONFLICT,
                retryable_override=False,
            ) from None


def _read(content: RawValue) -> JsonObject:
    """Read here and not by the SDK, with whose refusal what was given, and a stack trace, would be stored."""
    converter = nexus.client().data_converter.payload_converter
    try:
        read: JsonObject = converter.from_payload(content.payload)
    except Exception:  # noqa: BLE001  # converters raise anything over bytes that anybody sent
        raise InvalidTask("the operation's input must be a task as JSON") from None
    return read
