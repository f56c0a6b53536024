"""Tasks as visibility knows them, each by the newest of its runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from temporalio.client import WorkflowExecutionStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from temporalio.client import WorkflowExecution

    from ascertain.client import Client

# So many runs are looked at together for newer ones.
_AT_ONCE: Final = 100
_MOST_RUNS: Final = 1_000_000
_NOT_YET: Final = datetime.max.replace(tzinfo=UTC)
# What a quoted name in a query must not hold.
_QUOTES: Final = frozenset("'\\")


async def tasks(
    client: Client, query: str, limit: int, *, by_state: bool
) -> AsyncIterator[WorkflowExecution]:
    """Tasks whose newest run fits a visibility query, in the order of the server, each once.

    An older run keeps its last label for ever, and says where its task stood, not where it stands.

    Args:
        client: Where they are.
        query: Of visibility.
        limit: At most so many.
        by_state: Whether the query may fit an older run alone; else the server gives the newest first.

    Raises:
        TemporalDown: The server cannot be asked.
    """
    told: set[str] = set()
    async for runs in _some(client, query, min(_AT_ONCE, limit)):
        for newest in await _newest_of(client, runs) if by_state else runs:
            if newest.id in told:
                continue
            told.add(newest.id)
            yield newest
            if len(told) == limit:
                return


async def _some(client: Client, query: str, at_once: int) -> AsyncIterator[list[WorkflowExecution]]:
    runs: list[WorkflowExecution] = []
    async for run in client.tasks(query, limit=_MOST_RUNS):
        runs.append(run)
        if len(runs) == at_once:
            yield runs
            runs = []
    yield runs


async def _newest_of(
    client: Client, runs: Sequence[WorkflowExecution]
) -> Sequence[WorkflowExecution]:
    over = [run for run in runs if run.status is not WorkflowExecutionStatus.RUNNING]
    ids = sorted({run.id for run in over if not _QUOTES & set(run.id)})
    newest: dict[str, WorkflowExecution] = {}
    if ids:
        named = ", ".join(f"'{task_id}'" for task_id in ids)
        async for run in client.tasks(f"WorkflowId IN ({named})", limit=_MOST_RUNS):
            newest[run.id] = max(newest.get(run.id, run), run, key=_order)
    return [run for run in runs if newest.get(run.id, run).run_id == run.run_id]


def _order(run: WorkflowExecution) -> tuple[datetime, datetime]:
    """The runs of one task begin one after the other, each when the one before is over."""
    return run.close_time or _NOT_YET, run.start_time
