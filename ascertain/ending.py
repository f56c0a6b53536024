"""Whether a workflow is over and how, and why something could not be told to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.errors import AlreadyOver, NotFound

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecutionDescription, WorkflowHandle

# How a task ended of which the server knows nothing any more.
FORGOTTEN = "forgotten"
# ... and one whose id a workflow has that is no task.
NO_TASK = "no task"
# A run that failed like this was turned away: nothing was done for its content.
TURNED_AWAY = frozenset({"Conflict", "InvalidTask"})


def is_task(found: WorkflowExecutionDescription) -> bool:
    """Whether the workflow of a task's id is a task: all workflows of a namespace share their ids."""
    return found.workflow_type == names.TASK_WORKFLOW


async def ended(temporal: Client, task_id: str) -> str | None:
    """None while a workflow pursues the task; otherwise how it ended, in a word for people.

    Raises:
        TemporalDown: It cannot be told now.
    """
    handle = temporal.get_workflow_handle(task_id)
    try:
        with answered(f"look at task {task_id}"):
            found = await handle.describe(rpc_timeout=RPC_TIMEOUT)
    except NotFound:
        return FORGOTTEN
    if not is_task(found):
        return NO_TASK
    if found.status is None or found.status is WorkflowExecutionStatus.RUNNING:
        return None
    return found.status.name.lower()


async def turned_away(temporal: Client, found: WorkflowExecutionDescription) -> bool:
    """Whether a run has failed because its content is none, or not what its id stands for.

    Raises:
        TemporalDown: It cannot be told now.
    """
    if found.status is not WorkflowExecutionStatus.FAILED:
        return False
    handle = temporal.get_workflow_handle(found.id, run_id=found.run_id)
    try:
        with answered(f"read how task {found.id} ended"):
            await handle.result(follow_runs=False, rpc_timeout=RPC_TIMEOUT)
    except WorkflowFailureError as error:
        return isinstance(error.cause, ApplicationError) and error.cause.type in TURNED_AWAY
    return False


async def missed(temporal: Client, workflow_id: str, name: str, refusal: NotFound) -> NotFound:
    """What is told instead of the server's refusal, which says the same of both.

    Args:
        temporal: Where it was looked for.
        workflow_id: What was told something.
        name: What people call it, such as ``task t-1``.
        refusal: What the server said.

    Returns:
        ``AlreadyOver`` with how it ended, or ``NotFound``; the refusal itself if that cannot be found out.
    """
    handle = temporal.get_workflow_handle(workflow_id)
    try:
        found = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        if found.status is None or found.status is WorkflowExecutionStatus.RUNNING:
            return refusal  # it was over, and was begun again meanwhile
        how = await _how(handle, found.status)
    except RPCError as error:
        gone = error.status is RPCStatusCode.NOT_FOUND
        return NotFound(f"there is no {name}") if gone else refusal
    return AlreadyOver(f"{name} is {how}, so nothing can be told it any more")


async def _how(handle: WorkflowHandle[Any, Any], status: WorkflowExecutionStatus) -> str:
    """``DONE`` and the like for a task; what the server says of anything else."""
    if status is not WorkflowExecutionStatus.COMPLETED:
        return f"over ({status.name.lower().replace('_', ' ')})"
    result: object = await handle.result(rpc_timeout=RPC_TIMEOUT)
    told = cast("dict[str, object]", result) if isinstance(result, dict) else {}
    return str(told.get("outcome", "over"))


def words(cause: BaseException | None) -> str:
    """What a workflow said when it turned something away, without the name of its error's class."""
    return cause.message if isinstance(cause, ApplicationError) else str(cause)
