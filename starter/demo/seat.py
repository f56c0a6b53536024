"""A worker's seat: its own way to the outside, and the process that sits there now."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

from ascertain.errors import SetupError
from starter.process import Child
from starter.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from temporalio.client import Client

    from ascertain.testing.proxy import FaultProxy

_READY_WITHIN: Final = timedelta(seconds=60)
_DRAIN_WITHIN: Final = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Program:
    """How a worker is started, and which task queue it then polls."""

    command: Sequence[str]
    environment: Mapping[str, str]
    task_queue: str


class Seat:
    """One of the two workers. The proxy stays when the process is killed and another sits down.

    Attributes:
        name: For people.
        proxy: The worker's only way to the outside, so whoever watches it knows whose request it is.
    """

    def __init__(
        self, name: str, proxy: FaultProxy, program: Program, folder: Path, client: Client
    ) -> None:
        """Describe the seat; nobody sits there yet.

        Args:
            name: A short word.
            proxy: Runs already.
            program: What is started.
            folder: Of the run; the log goes there.
            client: Is asked whether the worker polls.
        """
        self.name = name
        self.proxy = proxy
        self._program = program
        self._folder = folder
        self._client = client
        self._child: Child | None = None

    @property
    def log(self) -> Path:
        """What its processes wrote, one after the other."""
        return self._folder / f"worker-{self.name}.log"

    async def fill(self) -> None:
        """Start a process and wait until it polls.

        Raises:
            SetupError: It ended, or does not poll; the message names its log.
        """
        program = self._program
        child = Child(
            program.command,
            log=self.log,
            cwd=self._folder,
            environment=program.environment,
        )
        self._child = child

        async def polls() -> bool:
            if child.exit_code is not None:
                raise SetupError(
                    f"worker {self.name} ended at once ({child.exit_code}); its log is {self.log}"
                    f" and ends with:\n{child.last_words}"
                )
            return await _polls(self._client, program.task_queue, child.pid)

        what = f"worker {self.name} did not begin to poll; its log is {self.log}"
        await until(polls, _READY_WITHIN, what)

    async def kill(self) -> None:
        """SIGKILL the process and wait for its end."""
        if self._child is not None:
            await self._child.kill()

    async def freeze(self) -> None:
        """SIGSTOP the process and wait until it stands still."""
        if self._child is not None:
            await self._child.freeze()

    def thaw(self) -> None:
        """Let a frozen process go on, as if nothing had happened."""
        if self._child is not None:
            self._child.send(signal.SIGCONT)

    async def drain(self) -> None:
        """Have the process finish what is in hand and end."""
        if self._child is not None:
            await self._child.stop(signal.SIGTERM, _DRAIN_WITHIN)


async def _polls(client: Client, task_queue: str, pid: int) -> bool:
    """Whether the server knows a poller of this process. Workers name themselves ``host:pid#...``."""
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    processes = {poller.identity.partition("#")[0] for poller in answer.pollers}
    return any(process.endswith(f":{pid}") for process in processes)
