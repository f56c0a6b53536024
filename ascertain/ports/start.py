"""What those who start tasks ask of Temporal, and who counts what was started before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from ascertain.contracts.delivery import Delivery
    from ascertain.contracts.task import Task


class Tasks(Protocol):
    """What Temporal knows of tasks, for those who start from the ledger's side."""

    async def ended(self, task_id: str) -> str | None:
        """None while a workflow pursues the task; otherwise how it ended, in a word for people.

        Raises:
            TemporalDown: It cannot be told now.
        """
        ...

    async def submit(self, task: Task, begun_at: datetime | None = None) -> object:
        """Start a task, once, however often it is asked for.

        Args:
            task: The task.
            begun_at: Since when it may have been at work already; None: it begins now.

        Raises:
            Conflict: Its id was used before for other content, or for a workflow that is no task.
            TemporalDown: It may or may not be started; ask again.
        """
        ...

    async def ascertain(self, task_id: str) -> bool:
        """Have a workflow find out what became of an ended task's effects; it begins no new one.

        Returns:
            False if Temporal does not know the task's content, so that only its submitter can start it again.

        Raises:
            TemporalDown: It cannot be told now; a later sweep tries again.
        """
        ...


class Deliveries(Protocol):
    """Who counts requests for tasks that were there already."""

    async def count(self, delivery: Delivery) -> int:
        """Count one more; gives how often the very same came.

        Raises:
            LedgerDown: It may or may not be counted.
        """
        ...
