"""Replays and incidents from outside: start one, ask where it stands, tell it what a person says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from temporalio.client import WorkflowExecutionStatus, WorkflowQueryFailedError
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.incident import PREFIX, IncidentRequest, IncidentStatus
from ascertain.contracts.replay import ReplayRequest, ReplayStatus
from ascertain.errors import Conflict, NotFound, TemporalDown
from ascertain.word import ANSWER_WITHIN, say

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ascertain.client import Client
    from ascertain.contracts.replay import Say

StatusT = TypeVar("StatusT", bound="BaseModel")

_GOES_WELL: Final = {WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED}


class Operations:
    """What persons start to recover, each a workflow of its own."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self._temporal = client.temporal
        self._task_queue = task_queue

    async def start_replay(self, replay_id: str, request: ReplayRequest) -> None:
        """Start a replay, once: the same id again is a conflict, for its items stand under that id.

        Raises:
            Conflict: There is or was a replay of this id.
            TemporalDown: No answer; look at its status before it is started again.
        """
        reuse = WorkflowIDReusePolicy.REJECT_DUPLICATE
        await self._start(names.REPLAY_WORKFLOW, replay_id, request, reuse)

    async def replay_status(self, replay_id: str) -> ReplayStatus:
        """Where a replay stands. Needs a running worker.

        Raises:
            NotFound: There is no such replay.
            TemporalDown: No worker answered.
        """
        return await self._status(replay_id, ReplayStatus, _replay(replay_id))

    async def broken_off(self, replay_id: str) -> str | None:
        """How a replay ended that did not come to its end, in a word for people; None if it did, or runs.

        Raises:
            NotFound: There is no such replay.
            TemporalDown: It cannot be told now.
        """
        with answered(f"look at {_replay(replay_id)}"):
            found = await self._temporal.get_workflow_handle(replay_id).describe(
                rpc_timeout=RPC_TIMEOUT
            )
        status = found.status
        return None if status is None or status in _GOES_WELL else status.name.lower()

    async def open_incident(self, request: IncidentRequest) -> None:
        """Open an incident; a partition has one at a time.

        Raises:
            Conflict: There is one that is not closed.
            TemporalDown: No answer; look at its status before it is opened again.
        """
        reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE
        await self._start(names.INCIDENT_WORKFLOW, request.incident_id, request, reuse)

    async def incident_status(self, incident_id: str) -> IncidentStatus:
        """Where an incident stands, also once it is closed. Needs a running worker.

        Raises:
            NotFound: There is no such incident.
            TemporalDown: No worker answered.
        """
        return await self._status(incident_id, IncidentStatus, _incident(incident_id))

    async def say(self, workflow_id: str, what: str, word: Say) -> str:
        """Tell a replay or an incident what a person says, and give its answer.

        Args:
            workflow_id: Which.
            what: The name of the update: ``pause``, ``resume``, ...
            word: Who says it and why.

        Raises:
            CommandRefused: It was not applied; the message says why.
            NotFound: There is none of that id; ``AlreadyOver``: it is over.
            TemporalDown: No worker answered; it may or may not be applied.
        """
        of_incident = what in {names.APPROVE, names.CLOSE}
        name = _incident(workflow_id) if of_incident else _replay(workflow_id)
        return await say(self._temporal, workflow_id, name, what, word)

    async def _start(
        self, workflow: str, workflow_id: str, request: BaseModel, reuse: WorkflowIDReusePolicy
    ) -> None:
        try:
            with answered(f"start {workflow_id}"):
                await self._temporal.start_workflow(
                    workflow,
                    request.model_dump(mode="json", exclude_defaults=True),
                    id=workflow_id,
                    task_queue=self._task_queue,
                    id_reuse_policy=reuse,
                    id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                    rpc_timeout=RPC_TIMEOUT,
                )
        except WorkflowAlreadyStartedError as error:
            raise Conflict(f"{workflow_id} was started before; ask for its status") from error

    async def _status(self, workflow_id: str, form: type[StatusT], name: str) -> StatusT:
        handle = self._temporal.get_workflow_handle(workflow_id)
        try:
            with answered(f"ask {workflow_id}"):
                # A worker that was just killed is asked first, for as long as the server believes in it.
                status: Any = await handle.query(
                    names.STATUS, result_type=form, rpc_timeout=ANSWER_WITHIN
                )
        except NotFound as error:
            raise NotFound(f"there is no {name}") from error
        except WorkflowQueryFailedError as error:
            raise TemporalDown(f"{workflow_id} could not answer: {error}") from error
        answer: StatusT = status
        return answer


def _replay(replay_id: str) -> str:
    return f"replay {replay_id}"


def _incident(incident_id: str) -> str:
    return f"incident in partition {incident_id.removeprefix(PREFIX)}"
