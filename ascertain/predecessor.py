"""The last run of a task before a further one: what it was started with, and what it gives on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ascertain import keys
from ascertain.connection import answered
from ascertain.contracts import names
from ascertain.contracts.continuation import Continuation, Progress
from ascertain.errors import AscertainError, InvalidTask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from temporalio.client import Client, WorkflowExecutionDescription

    from ascertain.contracts.value import JsonObject


async def started_with(temporal: Client, task_id: str, run_id: str | None = None) -> dict[str, Any]:
    """What a run of a task was started with, from the first event of its history.

    Args:
        temporal: Where it runs, or ran.
        task_id: Which task.
        run_id: Which run; None: the newest.

    Raises:
        InvalidTask: Not with one JSON object.
        NotFound: There is no such run.
        TemporalDown: It cannot be told now.
    """
    handle = temporal.get_workflow_handle(task_id, run_id=run_id)
    with answered(f"read what task {task_id} was started with"):
        first = await anext(aiter(handle.fetch_history_events(page_size=1)))
    payloads = first.workflow_execution_started_event_attributes.input.payloads
    try:
        (content,) = await temporal.data_converter.decode(payloads[:1], [dict[str, Any]])
    except AscertainError:
        raise
    except Exception:  # noqa: BLE001  # a converter may raise anything over what anybody sent
        raise InvalidTask("it was started with no task as JSON") from None
    given: dict[str, Any] = content
    return given


def is_continued(content: Mapping[str, object]) -> bool:
    """Whether a run that was started with this goes on from an earlier one."""
    return set(content) == set(Continuation.model_fields)


async def given_on(temporal: Client, found: WorkflowExecutionDescription) -> dict[str, object]:
    """The memo that tells a further run when the first one was started, and what persons said since.

    Raises:
        TemporalDown: It cannot be told now.
    """
    told = await _told(temporal, found)
    begun_at = await found.memo_value(names.MEMO_BEGUN_AT, default=None, type_hint=str)
    nothing: JsonObject = {}
    since = await found.memo_value(names.MEMO_AMENDED, default=nothing, type_hint=dict[str, Any])
    ordered: list[str] = await found.memo_value(
        names.MEMO_GIVEN_UP, default=keys.ordered_back(told), type_hint=list[str]
    )
    amended = {step: by.model_dump(mode="json") for step, by in told.amended.items()} | since
    return {
        names.MEMO_BEGUN_AT: begun_at or (told.begun_at or _started(found)).isoformat(),
        **({names.MEMO_AMENDED: amended} if amended else {}),
        **({names.MEMO_GIVEN_UP: ordered} if ordered else {}),
    }


async def _told(temporal: Client, found: WorkflowExecutionDescription) -> Progress:
    """What it was given over itself; an earlier release left out of the memo what stands there."""
    try:
        content = await started_with(temporal, found.id, found.run_id)
        if is_continued(content):
            return Progress.model_validate(content["progress"])
    except (InvalidTask, ValidationError):
        pass  # that run refuses itself, and says so in its result
    return Progress()


def _started(found: WorkflowExecutionDescription) -> datetime:
    # Of a run that was reset, start_time is when that was done.
    extended = found.raw_description.workflow_extended_info
    if not extended.HasField("original_start_time"):
        return found.start_time
    return min(found.start_time, extended.original_start_time.ToDatetime(UTC))
