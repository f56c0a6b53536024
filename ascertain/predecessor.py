"""The last run of a task before a further one: what it was started with, and what it gives on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from ascertain import keys
from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.continuation import Continuation, Progress
from ascertain.ending import turned_away
from ascertain.errors import AscertainError, InvalidTask, NotFound

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from temporalio.client import Client, WorkflowExecutionDescription

# So many runs are looked back over for one that was not turned away.
LOOKED_BACK: Final = 20


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
        InvalidTask: What the memo says of it cannot be read.
        TemporalDown: It cannot be told now.
    """
    told, since = await _told(temporal, found), await _remembered(found)
    begun_at = since.begun_at or told.begun_at or _started(found)
    ordered = list(since.taking_back) or keys.ordered_back(told)
    amended = {**told.amended, **since.amended}
    by_step = {step: by.model_dump(mode="json") for step, by in amended.items()}
    return {
        names.MEMO_BEGUN_AT: begun_at.isoformat(),
        **({names.MEMO_AMENDED: by_step} if by_step else {}),
        **({names.MEMO_GIVEN_UP: ordered} if ordered else {}),
    }


async def given_past(temporal: Client, found: WorkflowExecutionDescription) -> dict[str, object]:
    """The same, of the newest run that was not turned away.

    One that was did nothing, and whoever started it may have told it nothing of the runs before it.

    Raises:
        InvalidTask: What that run's memo says cannot be read.
        TemporalDown: It cannot be told now.
    """
    if not await turned_away(temporal, found):
        return await given_on(temporal, found)
    async for earlier in _runs_before(temporal, found):
        if not await turned_away(temporal, earlier):
            return await given_on(temporal, earlier)
    try:
        return await given_on(temporal, found)
    except InvalidTask:
        return {}  # that is why it was turned away, and no other run is known


async def _runs_before(
    temporal: Client, found: WorkflowExecutionDescription
) -> AsyncGenerator[WorkflowExecutionDescription]:
    """The earlier runs of a task that are still known, the newest first."""
    query = f"WorkflowId = '{found.id}' AND WorkflowType = '{names.TASK_WORKFLOW}'"
    with answered(f"look for earlier runs of task {found.id}"):
        listed = temporal.list_workflows(query, limit=LOOKED_BACK + 1, rpc_timeout=RPC_TIMEOUT)
        runs = [run async for run in listed if run.run_id != found.run_id]
    for run in sorted(runs, key=lambda run: run.start_time, reverse=True):
        handle = temporal.get_workflow_handle(run.id, run_id=run.run_id)
        try:
            with answered(f"look at task {run.id}"):
                earlier = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        except NotFound:
            continue  # deleted, and still listed
        yield earlier


async def _remembered(found: WorkflowExecutionDescription) -> Progress:
    """What its memo says; the workflow reads the same of its own."""
    said: dict[str, tuple[str, object]] = {
        "begun_at": (names.MEMO_BEGUN_AT, None),
        "amended": (names.MEMO_AMENDED, {}),
        "taking_back": (names.MEMO_GIVEN_UP, ()),
    }
    try:
        memo = {
            field: await found.memo_value(name, default=default, type_hint=object)
            for field, (name, default) in said.items()
        }
        return Progress.model_validate(memo)
    except AscertainError:
        raise
    except Exception:  # noqa: BLE001  # a converter may raise anything over what anybody sent
        raise InvalidTask(
            f"task {found.id!r} is not started again: the memo of its run {found.run_id} cannot be "
            f"read, and says when it began and what persons ordered ({names.MEMO_BEGUN_AT}, "
            f"{names.MEMO_AMENDED}, {names.MEMO_GIVEN_UP}). Give this process the codec of whoever wrote it; "
            "if it was written wrongly, start the task yourself with these three as they should be"
        ) from None


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
