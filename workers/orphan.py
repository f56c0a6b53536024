"""What Temporal knows of tasks that the ledger has open effects of: ``ports.Tasks``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio.client import WorkflowExecutionStatus
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts.continuation import Progress
from ascertain.ending import is_task, turned_away
from ascertain.errors import InvalidTask, NotFound
from ascertain.predecessor import given_on

if TYPE_CHECKING:
    from datetime import datetime

    from temporalio.client import WorkflowExecutionDescription

    from ascertain.client import Client
    from ascertain.contracts.task import Task
    from ascertain.ports import Tasks

# How a task ends by itself. It stays so: what is found out of its effects makes it no new task.
ENDED = frozenset({WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.CANCELED})


class TemporalTasks:
    """The tasks of one namespace."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def submit(self, task: Task, begun_at: datetime | None = None) -> object:
        """See ``ports.Tasks.submit``."""
        return await self._client.starting.submit(task, begun_at)

    async def ended(self, task_id: str) -> str | None:
        """See ``ports.Tasks.ended``."""
        return await self._client.ended(task_id)

    async def ascertain(self, task_id: str) -> bool:
        """See ``ports.Tasks.ascertain``."""
        try:
            found = await self._describe(task_id)
            if not is_task(found) or await turned_away(self._client.temporal, found):
                return False
            task = await self._client.starting.content(task_id)
            if found.status is WorkflowExecutionStatus.RUNNING:
                return True
            timeout = found.raw_description.execution_config.default_workflow_task_timeout
            await self._client.starting.start(
                task,
                WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                Progress(
                    only_ascertain=True,
                    ended=found.status in ENDED,
                    cancelling=found.status is WorkflowExecutionStatus.CANCELED,
                ),
                task_queue=found.task_queue,
                task_timeout=timeout.ToTimedelta() or None,
                before=await given_on(self._client.temporal, found),
            )
        except (InvalidTask, NotFound):
            return False
        except WorkflowAlreadyStartedError:
            return True
        return True

    async def _describe(self, task_id: str) -> WorkflowExecutionDescription:
        handle = self._client.temporal.get_workflow_handle(task_id)
        with answered(f"look at task {task_id}"):
            return await handle.describe(rpc_timeout=RPC_TIMEOUT)


if TYPE_CHECKING:
    _conforms: type[Tasks] = TemporalTasks
