"""``ascertain result``, ``wait``, ``reconcile`` and ``cancel``."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ascertain.cli import attend, listing, output, place, shape
from ascertain.cli.carried import commanding
from ascertain.cli.failure import NOT_DONE, leaving
from ascertain.contracts.task import TaskOutcome
from ascertain.errors import AscertainError

if TYPE_CHECKING:
    from ascertain.client import Client

_ANSWER_WITHIN_S: Final = 5


async def result(
    task_id: str, within: timedelta | None, config: Path | None, *, as_json: bool
) -> int:
    """Wait for what becomes of a task, and print it.

    Returns:
        The exit code: 0 only if the task is DONE.

    Raises:
        NotFound: There is no such task.
        NotOver: It is not over in time.
        TaskEnded: Its workflow ended without a result.
    """
    where = place.find(config)
    client = await where.client()
    with leaving(attend.goes_on(task_id)):
        ended = await attend.result(client, task_id, within, output.note, where)
    if as_json:
        output.document(ended.model_dump(mode="json"))
    else:
        shape.print_result(ended)
    return 0 if ended.outcome is TaskOutcome.DONE else NOT_DONE


async def wait(
    task_id: str, state: str | None, within: timedelta | None, config: Path | None, *, as_json: bool
) -> int:
    """Wait until a task is in a state, and print where it stands.

    Returns:
        0, or 8 if it is over and never came there.

    Raises:
        NotFound: There is no such task.
        NotOver: It is not there in time.
    """
    wanted = None if state is None else listing.checked_state(state)
    where = place.find(config)
    client = await where.client()
    with leaving(attend.goes_on(task_id)):
        found = await attend.wait(client, task_id, wanted, within, output.note, where)
    if as_json:
        output.document(found.document())
    else:
        output.line(f"Task {task_id} is {found.state}.")
    return 0 if wanted in {None, found.state} else NOT_DONE


async def reconcile(task_id: str, config: Path | None, *, as_json: bool) -> None:
    """Have a task ask the outside now.

    Raises:
        NotFound: There is no such task; ``AlreadyOver``: it is over.
    """
    where = place.find(config)
    client = await where.client()
    async with commanding(client, where, task_id):
        await client.reconcile_now(task_id)
    askable = await _is_askable(client, task_id)
    if as_json:
        output.document({"task_id": task_id, "asked": askable})
    elif not askable:
        output.line(
            f"Task {task_id} was told to look now, but its outside cannot be asked: only an answer that came "
            f"late is found. `ascertain explain {task_id}` says what a person can do."
        )
    else:
        output.line(f"Task {task_id} was told to ask the outside now; `show` has the answer.")


async def _is_askable(client: Client, task_id: str) -> bool:
    """Whether the outside of what is open can be asked; True where no worker tells otherwise soon."""
    with suppress(AscertainError, TimeoutError):
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            opened = (await client.status(task_id)).open
            return opened is None or opened.standing is None or opened.standing.askable
    return True


async def cancel(task_id: str, config: Path | None, *, as_json: bool) -> None:
    """Cancel a task.

    Raises:
        NotFound: There is no such task; ``AlreadyOver``: it is over.
    """
    where = place.find(config)
    client = await where.client()
    async with commanding(client, where, task_id):
        await client.cancel(task_id)
    if as_json:
        output.document({"task_id": task_id, "cancelling": True})
    else:
        output.line(
            f"Task {task_id} was told to cancel: no new step starts; what is open is ascertained first."
        )
