"""The naive side as the demonstration sees it."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio.client import WorkflowFailureError

from starter.demo.application import Account
from starter.demo.books import read_books
from starter.demo.naive import worker
from starter.demo.naive.workflow import TASK_QUEUE, WORKFLOW
from starter.demo.provider import API_KEY
from starter.demo.seat import Program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from temporalio.client import Client

    from ascertain.contracts.task import Task

# The same as the other side's, so that both hand a dead worker's work out after the same time.
_TASK_TIMEOUT: Final = timedelta(seconds=3)


class Naive:
    """A plain Temporal worker; it keeps no books, so only the outside can be asked afterwards."""

    def __init__(self, temporal: Client, outside_url: str) -> None:
        self._temporal = temporal
        self._outside_url = outside_url

    def program(self, seat: str, api_base: str) -> Program:
        """See ``Application.program``."""
        del seat
        return Program(
            command=(sys.executable, "-m", "starter.demo.naive.worker"),
            environment={
                worker.API_BASE: api_base,
                worker.API_KEY: API_KEY,
                "TEMPORAL_ADDRESS": self._temporal.service_client.config.target_host,
                "TEMPORAL_NAMESPACE": self._temporal.namespace,
            },
            task_queue=TASK_QUEUE,
        )

    async def submit(self, task: Task) -> None:
        """See ``Application.submit``."""
        await self._temporal.start_workflow(
            WORKFLOW,
            task.model_dump(mode="json", exclude_defaults=True),
            id=task.task_id,
            task_queue=TASK_QUEUE,
            task_timeout=_TASK_TIMEOUT,
        )

    async def outcome(self, task_id: str) -> str:
        """See ``Application.outcome``."""
        handle = self._temporal.get_workflow_handle(task_id, result_type=str)
        try:
            outcome: str = await handle.result()
        except WorkflowFailureError as error:
            return f"failed: {error.cause}"
        return outcome

    async def states(self) -> Mapping[str, str]:
        """See ``Application.states``: nobody knows more than that they run."""
        return {}

    async def overtaken(self, effect_id: str) -> bool:
        """See ``Application.overtaken``: somebody else has done it once more."""
        books = await read_books(self._outside_url, API_KEY)
        return sum(fact.effect_id == effect_id for fact in books.facts) > 1

    async def thawed(self, effect_id: str) -> str:
        """See ``Application.thawed``."""
        del effect_id
        return "it charged too, and nobody will know"

    async def account(self) -> Account:
        """See ``Application.account``: it says nothing."""
        return Account()
