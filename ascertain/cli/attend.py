"""Wait for what becomes of a task, or for a state; and say so as soon as it waits for a person."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from temporalio.client import WorkflowExecutionStatus

from ascertain.cli import listing, poller
from ascertain.cli.acquaintance import PARTITION
from ascertain.cli.carried import Carried
from ascertain.cli.failure import NotOver
from ascertain.cli.listing import ERROR_CLASS, HELD, STATE
from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts.directive import UNSERVED
from ascertain.contracts.effect import State
from ascertain.ending import FORGOTTEN
from ascertain.errors import AscertainError, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from temporalio.common import TypedSearchAttributes

    from ascertain.cli.listing import Listed
    from ascertain.cli.place import Place
    from ascertain.client import Client
    from ascertain.contracts.task import TaskResult

_LOOK_EVERY_S: Final = 1.0
_SEARCH_EVERY_S: Final = 0.2
# A person decides about these.
_PERSONS: Final = {
    State.QUARANTINED.value: "waits for a person",
    State.TAKEN_OVER.value: "is in the hands of a person",
}


async def result(
    client: Client,
    task_id: str,
    within: timedelta | None,
    say: Callable[[str], None],
    where: Place | None = None,
) -> TaskResult:
    """Wait for a task's result.

    Args:
        client: Where the task is.
        task_id: Which.
        within: At most so long; None: without limit.
        say: Told each time that the task comes to need somebody.
        where: Whose ledger tells of a task without a workflow; None: that is no task.

    Raises:
        NotOver: It is not over in time; says whether a person is needed.
        NotFound: There is no such task.
        TaskEnded: Its workflow ended without a result.
    """
    watching = asyncio.create_task(_watch(client, task_id, frozenset(), say))
    try:
        async with asyncio.timeout(None if within is None else within.total_seconds()):
            return await _result(
                client, task_id, None if where is None else Carried(client, where, task_id, say)
            )
    except TimeoutError:
        raise NotOver(await _not_over(client, task_id)) from None
    finally:
        watching.cancel()


async def _result(client: Client, task_id: str, carried: Carried | None) -> TaskResult:
    while True:
        try:
            return await client.result(task_id)
        except NotFound:
            if carried is None:
                raise
        if (told := await carried.result()) is not None:
            return told
        await asyncio.sleep(_LOOK_EVERY_S)


def goes_on(task_id: str) -> str:
    """What to say where the wait ends and the task does not."""
    return (
        f"Only the wait is over: task {task_id} goes on. `ascertain show {task_id}` says where it stands, "
        f"and `ascertain result {task_id}` waits again."
    )


async def _watch(
    client: Client, task_id: str, quiet: frozenset[str], say: Callable[[str], None]
) -> None:
    """Say what somebody has to end, once each time that it becomes so, but for what is waited for."""
    said = ""
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        needs = await _needs(client, task_id, quiet)
        if needs and needs != said:
            say(f"Task {task_id} {needs} The wait goes on.")
        said = needs


async def _not_over(client: Client, task_id: str) -> str:
    needs = await _needs(client, task_id)
    if needs:
        return f"task {task_id} is not over: it {needs}"
    return f"task {task_id} is not over yet; it goes on. Look with `ascertain show {task_id}`"


async def _needs(client: Client, task_id: str, quiet: frozenset[str] = frozenset()) -> str:
    """What somebody has to do, in words; empty if it needs nobody, or that cannot be asked now."""
    try:
        with answered(f"look at task {task_id}"):
            handle = client.temporal.get_workflow_handle(task_id)
            found = await handle.describe(rpc_timeout=RPC_TIMEOUT)
            if found.status is not WorkflowExecutionStatus.RUNNING:
                return ""
            if not await poller.serving(client.temporal, found.task_queue):
                nobody = poller.nobody_serves(found.task_queue)
                return f"stands still: {nobody}. `ascertain worker` starts a worker."
    except AscertainError:
        return ""
    return _waits_for(task_id, found.typed_search_attributes, quiet)


def _waits_for(task_id: str, labels: TypedSearchAttributes, quiet: frozenset[str]) -> str:
    state = labels.get(STATE, "")
    if state in quiet:
        return ""
    if state == HELD:
        partition = labels.get(PARTITION, "")
        return (
            f"is held by a closed gate. `ascertain partitions` says which, by whom and why; "
            f"`ascertain resume {partition}` opens that of its partition, `ascertain resume --all` that of "
            "every one."
        )
    if labels.get(ERROR_CLASS) == UNSERVED:
        return "waits, because no worker takes its work. `ascertain doctor` says who serves what."
    if state in _PERSONS:
        look = f"What is known and what is safe next: `ascertain explain {task_id}`."
        return f"{_PERSONS[state]}. {look}"
    return ""


async def wait(
    client: Client,
    task_id: str,
    state: str | None,
    within: timedelta | None,
    say: Callable[[str], None],
    where: Place,
) -> Listed:
    """Wait until a search shows a task where it is wanted, so that whatever is asked next shows it too.

    Args:
        client: Where the task is.
        task_id: Which.
        state: As ``list`` calls it; None: over, or a person may decide about it now.
        within: At most so long; None: without limit.
        say: Told each time that the task comes to need somebody.
        where: Whose ledger tells of a task without a workflow.

    Returns:
        Where it stands; it is over if it is not in the wanted state.

    Raises:
        NotOver: It is not there in time.
        NotFound: There is no such task.
    """
    quiet = frozenset(_PERSONS if state is None else {state})
    watching = asyncio.create_task(_watch(client, task_id, quiet, say))
    try:
        async with asyncio.timeout(None if within is None else within.total_seconds()):
            return await _there(client, state, Carried(client, where, task_id, say))
    except TimeoutError:
        raise NotOver(await _not_over(client, task_id)) from None
    finally:
        watching.cancel()


async def _there(client: Client, state: str | None, carried: Carried) -> Listed:
    while True:
        found = await listing.newest(client, carried.task_id)
        over = await client.ended(carried.task_id)
        if found is None and over == FORGOTTEN:
            told = await carried.result()
            if told is not None:
                return carried.listed(told)
            await asyncio.sleep(_LOOK_EVERY_S)
        if found is not None and await _is_there(client, found, state, over=over):
            return found
        await asyncio.sleep(_SEARCH_EVERY_S)


async def _is_there(client: Client, found: Listed, state: str | None, *, over: str | None) -> bool:
    if found.state == state or (over is not None and found.workflow != listing.RUNNING):
        return True
    if state is not None or found.state not in _PERSONS:
        return False
    opened = (await client.status(found.task_id)).open
    standing = opened.standing if opened is not None else None
    if standing is None:
        return False
    return standing.act_from is None or standing.act_from <= datetime.now(UTC)
