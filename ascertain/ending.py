"""Why something could not be told to a workflow: there is none, or it is over and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from temporalio.client import WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ascertain.connection import RPC_TIMEOUT
from ascertain.errors import AlreadyOver, NotFound

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowHandle


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
