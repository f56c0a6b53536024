"""What a task that is over answered a command, for whoever gives the same command again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest

from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts.command import Command, CommandAnswer
from ascertain.contracts.continuation import Progress
from ascertain.errors import AscertainError, InvalidTask, NotFound
from ascertain.predecessor import is_continued, started_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temporalio.api.common.v1 import Payload
    from temporalio.api.history.v1 import HistoryEvent
    from temporalio.client import Client

# A command that ends a task is among its last events, and its repeat comes soon: one page is read.
LOOKED_AT: Final = 200


async def first_answer(temporal: Client, task_id: str, command: Command) -> CommandAnswer | None:
    """What was applied when this command came first under its request id; None if that is not found at once.

    It stands in the last events of the task's newest run, or in what that run was given over from the
    history before it. A command that came as a signal was answered to nobody.

    Raises:
        TemporalDown: It cannot be told now.
    """
    try:
        events = await _last_events(temporal, task_id)
        return await _in_events(temporal, events, command) or await _given_over(
            temporal, task_id, command
        )
    except (NotFound, InvalidTask, ValidationError):
        return None


async def _last_events(temporal: Client, task_id: str) -> Sequence[HistoryEvent]:
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=temporal.namespace,
        execution=WorkflowExecution(workflow_id=task_id),
        maximum_page_size=LOOKED_AT,
    )
    with answered(f"read what task {task_id} answered"):
        page = await temporal.workflow_service.get_workflow_execution_history_reverse(
            request, timeout=RPC_TIMEOUT
        )
    return page.history.events


async def _in_events(
    temporal: Client, events: Sequence[HistoryEvent], command: Command
) -> CommandAnswer | None:
    """Newest first, so that an answer is met before what it answers."""
    answers: dict[int, Sequence[Payload]] = {}
    for event in events:
        if event.HasField("workflow_execution_update_completed_event_attributes"):
            completed = event.workflow_execution_update_completed_event_attributes
            answers[completed.accepted_event_id] = completed.outcome.success.payloads
        elif event.HasField("workflow_execution_update_accepted_event_attributes"):
            accepted = event.workflow_execution_update_accepted_event_attributes
            given = await _decoded(temporal, accepted.accepted_request.input.args.payloads)
            if (given.get("request_id"), given.get("action")) == (
                command.request_id,
                command.action,
            ):
                told = await _decoded(temporal, answers.get(event.event_id, ()))
                answer = CommandAnswer.model_validate(told) if told else None
                if answer is not None and answer.applied and answer.is_for(command):
                    return answer
    return None


async def _given_over(temporal: Client, task_id: str, command: Command) -> CommandAnswer | None:
    content = await started_with(temporal, task_id)
    if not is_continued(content):
        return None
    answer = Progress.model_validate(content["progress"]).answered.get(command.request_id or "")
    return answer if answer is not None and answer.is_for(command) else None


async def _decoded(temporal: Client, payloads: Sequence[Payload]) -> dict[str, Any]:
    """The JSON object that somebody gave; empty if it was none."""
    try:
        (given,) = await temporal.data_converter.decode([*payloads[:1]], [dict[str, Any]])
    except AscertainError:
        raise
    except Exception:  # noqa: BLE001  # a converter may raise anything over what anybody sent
        return {}
    told: dict[str, Any] = given
    return told
