"""The tasks behind a replay's items, told as anybody tells them: through the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascertain.errors import InvalidTask, NotFound

if TYPE_CHECKING:
    from ascertain.client import Client
    from ascertain.contracts.command import Command, CommandAnswer
    from ascertain.contracts.task import Task
    from ascertain.recovery import ReplayTasks


class ReplayedTasks:
    """``recovery.ReplayTasks`` on Temporal."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def content(self, task_id: str) -> Task | None:
        """See ``recovery.ReplayTasks.content``: from the first event of the latest run."""
        try:
            return await self._client.starting.content(task_id)
        except (InvalidTask, NotFound):
            return None

    async def command(self, task_id: str, command: Command) -> CommandAnswer:
        """See ``recovery.ReplayTasks.command``."""
        return await self._client.takeover(task_id, command)

    async def ask_now(self, task_id: str) -> None:
        """See ``recovery.ReplayTasks.ask_now``."""
        await self._client.reconcile_now(task_id)

    async def start_again(self, task_id: str) -> bool:
        """See ``recovery.ReplayTasks.start_again``: the same as submitting it again."""
        task = await self.content(task_id)
        if task is None:
            return False
        await self._client.submit(task)
        return True


if TYPE_CHECKING:
    _conforms: type[ReplayTasks] = ReplayedTasks
