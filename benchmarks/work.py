"""A worker of one of the sides, as a process of its own."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ascertain.errors import SetupError
from benchmarks.cpu import Process
from benchmarks.ready import READY
from starter.process import Child
from starter.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_READY_WITHIN: Final = timedelta(seconds=60)


class Work:
    """A worker process, from its start to its end."""

    def __init__(
        self, name: str, module: str, folder: Path, environment: Mapping[str, str]
    ) -> None:
        """Start it.

        Args:
            name: For its log.
            module: Is run.
            folder: Of the run.
            environment: Its variables.
        """
        self._name = name
        self._log = folder / f"worker-{name}.log"
        command = (sys.executable, "-m", module)
        self._child = Child(command, log=self._log, cwd=folder, environment=environment)

    @property
    def process(self) -> Process:
        """For its processor time."""
        return Process(self._child.pid)

    async def ready(self) -> None:
        """Wait until it polls.

        Raises:
            SetupError: It ended, or does not poll.
        """

        async def polls() -> bool:
            if self._child.exit_code is not None:
                raise SetupError(f"worker {self._name} ended: {self._child.last_words}")
            return READY in self._log.read_text("utf-8", errors="replace")

        await until(polls, _READY_WITHIN, f"worker {self._name} did not begin to poll")

    async def kill(self) -> None:
        """End it at once."""
        await self._child.kill()
