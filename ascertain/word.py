"""A person's word to a workflow, and what it answers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio.client import (
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)

from ascertain.connection import answered
from ascertain.contracts.replay import Said, Say
from ascertain.ending import missed, words
from ascertain.errors import CommandRefused, NotFound, TemporalDown

if TYPE_CHECKING:
    from temporalio.client import Client

ANSWER_WITHIN: Final = timedelta(seconds=30)


async def say(temporal: Client, workflow_id: str, name: str, what: str, word: Say) -> str:
    """Tell a replay, an incident or a stream what a person says, and give its answer.

    Args:
        temporal: Where it runs.
        workflow_id: Which.
        name: What people call it, such as ``replay r-1``.
        what: The name of the update: ``pause``, ``resume``, ...
        word: Who says it and why.

    Raises:
        CommandRefused: It was not applied; the message says why.
        NotFound: There is none of that id; ``AlreadyOver``: it is over.
        TemporalDown: No worker answered; it may or may not be applied.
    """
    handle = temporal.get_workflow_handle(workflow_id)
    try:
        with answered(f"tell {workflow_id}"):
            async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
                answer: Said = await handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                    what,
                    word.model_dump(mode="json", exclude_none=True),
                    result_type=Said,
                    rpc_timeout=ANSWER_WITHIN,
                )
    except NotFound as error:
        raise await missed(temporal, workflow_id, name, error) from error
    except WorkflowUpdateFailedError as error:
        raise CommandRefused(f"{workflow_id}: {words(error.cause)}") from error
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
        raise TemporalDown(f"no worker answered for {workflow_id} in time") from error
    if not answer.applied:
        raise CommandRefused(f"{workflow_id}: {what} refused: {answer.message}")
    return answer.message
