"""The client: start tasks, learn what became of them, tell them what to do."""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Self, TypeVar

from temporalio.client import (
    Client as TemporalClient,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    TerminatedError,
)

from ascertain.connection import RPC_TIMEOUT, answered, connect_temporal
from ascertain.contracts import names
from ascertain.contracts.command import CommandAnswer
from ascertain.contracts.status import TaskStatus, Timeline
from ascertain.contracts.task import Task, TaskOutcome, TaskResult
from ascertain.door import admit
from ascertain.ending import ended, missed, words
from ascertain.errors import (
    AscertainError,
    CommandRefused,
    Conflict,
    InvalidTask,
    NotFound,
    TaskEnded,
    TemporalDown,
)
from ascertain.repeat import first_answer
from ascertain.starting import Starting, Submitted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping

    from pydantic import JsonValue
    from temporalio.client import (
        WorkflowExecution,
    )

    from ascertain.contracts.command import Command
    from ascertain.ports import Deliveries

_LEAVE_WITHIN_S = 1.0
_LOOK_EVERY_S = 0.001

ResultT = TypeVar("ResultT")


class Client:
    """Talks to the tasks of one Temporal namespace.

    Every call has a deadline of its own, for a server that hangs is worse than one that is gone. Use it
    with ``async with``, or call ``aclose`` last.
    """

    def __init__(
        self,
        temporal: TemporalClient,
        *,
        task_queue: str = names.TASK_QUEUE,
        kinds: Collection[str] | None = None,
        task_timeout: timedelta | None = None,
        deliveries: Deliveries | None = None,
    ) -> None:
        """Wrap a Temporal client that uses the pydantic data converter.

        Args:
            temporal: Connected client.
            task_queue: Where the deployment's workflows run.
            kinds: Kinds of effect that the deployment serves, to refuse others at the door; None: any.
            task_timeout: Workflow task time-out of started tasks: what a killed worker's inline effect
                waits before somebody else asks about it. None: the server's 10 s.
            deliveries: Who counts requests for tasks that are there already; None: nobody.
        """
        self.temporal = temporal
        self.task_queue = task_queue
        self.starting = Starting(temporal, task_queue, task_timeout, deliveries)
        self._kinds = kinds

    @classmethod
    async def connect(
        cls,
        *,
        task_queue: str = names.TASK_QUEUE,
        kinds: Collection[str] | None = None,
        task_timeout: timedelta | None = None,
        profile: str | None = None,
        deliveries: Deliveries | None = None,
    ) -> Client:
        """Connect as Temporal's own environment configuration says: variables and profile file.

        Raises:
            TemporalDown: No server answers there.
        """
        temporal = await connect_temporal(profile)
        return cls(
            temporal,
            task_queue=task_queue,
            kinds=kinds,
            task_timeout=task_timeout,
            deliveries=deliveries,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Wait until the SDK's own threads have left Python, for at most a second.

        The one that brought the last answer may still be on its way out, and a program that ends just
        then is aborted by the interpreter. There is nothing else to close: the connection is the process's.
        """
        for _ in range(int(_LEAVE_WITHIN_S / _LOOK_EVERY_S)):
            if not _foreign_threads():
                return
            await asyncio.sleep(_LOOK_EVERY_S)

    async def submit(
        self, task: Task | Mapping[str, JsonValue], *, message_id: str | None = None
    ) -> Submitted:
        """Start a task, once, however often it is asked for.

        Args:
            task: The task, or its JSON.
            message_id: Replaces the task's own; the message that asked for it.

        Raises:
            InvalidTask: A rule of the door is broken, or the deadline of a task that does not run has
                passed; nothing was started.
            UnknownKind: A step's kind is not served.
            Conflict: This task_id was started before with other content, or is that of a workflow which
                is no task.
            TemporalDown: No answer; it may or may not be started. Submit it again: that is safe.
        """
        admitted = admit(task, self._kinds)
        if message_id is not None:
            admitted = admit(
                {**admitted.model_dump(mode="json"), "message_id": message_id}, self._kinds
            )
        return await self.starting.submit(admitted)

    async def result(self, task_id: str, *, within: timedelta | None = None) -> TaskResult:
        """Wait for what becomes of a task.

        Raises:
            NotFound: There is no such task.
            TaskEnded: It was cancelled, terminated or failed; the ledger knows its effects.
            TimeoutError: It is not over within that time; it goes on.
        """
        handle = self.temporal.get_workflow_handle(task_id, result_type=TaskResult)
        try:
            async with asyncio.timeout(None if within is None else within.total_seconds()):
                with answered(f"wait for task {task_id}"):
                    result: TaskResult = await handle.result()
        except NotFound:
            raise NotFound(f"there is no task {task_id}") from None
        except WorkflowFailureError as error:
            raise _ended(task_id, error.cause) from error
        if result.outcome is TaskOutcome.CANCELLED:
            raise _cancelled(task_id, "was cancelled, or came to its deadline")
        return result

    async def status(self, task_id: str) -> TaskStatus:
        """Ask the task where it stands. Needs a running worker."""
        return await self._query(task_id, names.STATUS, TaskStatus)

    async def timeline(self, task_id: str) -> Timeline:
        """Ask the task what happened. Needs a running worker."""
        return await self._query(task_id, names.TIMELINE, Timeline)

    async def _query(self, task_id: str, query: str, result: type[ResultT]) -> ResultT:
        handle = self.temporal.get_workflow_handle(task_id)
        try:
            with answered(f"ask task {task_id}"):
                answer: ResultT = await handle.query(
                    query, result_type=result, rpc_timeout=RPC_TIMEOUT
                )
                return answer
        except WorkflowQueryFailedError as error:
            raise TemporalDown(f"task {task_id} could not answer: {error}") from error

    async def takeover(self, task_id: str, command: Command) -> CommandAnswer:
        """Tell a task what a person decided; the answer says whether it was applied.

        The request_id is not the update's id: Temporal would give the first answer again for ever, also
        one that says "not now". The task itself knows which requests it has applied, and its history does
        once it is over.

        Raises:
            CommandRefused: The task did not accept it; the message says why.
            NotFound: There is no such task; ``AlreadyOver``: it is over.
            TemporalDown: No worker answered; it may or may not be applied. Repeat it with its
                ``request_id``: that is applied once.
        """
        handle = self.temporal.get_workflow_handle(task_id)
        try:
            with answered(f"command task {task_id}"):
                answer: CommandAnswer = await handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                    names.TAKEOVER,
                    command.model_dump(mode="json", exclude_none=True),
                    result_type=CommandAnswer,
                    rpc_timeout=timedelta(seconds=60),
                )
                return answer
        except NotFound as error:
            before = await self.answered_before(task_id, command)
            if before is not None:
                return before
            raise await self._missed(task_id, error) from error
        except WorkflowUpdateFailedError as error:
            return _refusal(task_id, error)
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            if isinstance(error.__cause__, asyncio.CancelledError):
                raise asyncio.CancelledError from error  # the caller's own, which the SDK renames
            raise TemporalDown(f"no worker answered for task {task_id} in time") from error

    async def answered_before(self, task_id: str, command: Command) -> CommandAnswer | None:
        """What was applied when this came first under its request id, whatever its version was.

        None: the task's history does not tell so, or it has no request id.
        """
        return await first_answer(self.temporal, task_id, command) if command.request_id else None

    async def ended(self, task_id: str) -> str | None:
        """None while a workflow pursues the task; otherwise how it ended, in a word for people."""
        return await ended(self.temporal, task_id)

    async def reconcile_now(self, task_id: str) -> None:
        """Ask the outside now instead of at the next appointed time."""
        try:
            await self._signal(task_id, names.RECONCILE_NOW)
        except NotFound as error:
            raise await self._missed(task_id, error) from error

    async def resume(self, task_id: str) -> None:
        """Look at the gate now."""
        await self._signal(task_id, names.RESUME)

    async def _signal(self, task_id: str, signal: str) -> None:
        with answered(f"signal task {task_id}"):
            handle = self.temporal.get_workflow_handle(task_id)
            await handle.signal(signal, rpc_timeout=RPC_TIMEOUT)

    async def cancel(self, task_id: str) -> None:
        """Start no new step; ascertain the open effect; undo if the task says so.

        Raises:
            NotFound: There is no such task; ``AlreadyOver``: it is over.
        """
        if await self.ended(task_id) is not None:  # the server would acknowledge it all the same
            raise await self._missed(task_id, NotFound(f"there is no task {task_id}"))
        with answered(f"cancel task {task_id}"):
            await self.temporal.get_workflow_handle(task_id).cancel(rpc_timeout=RPC_TIMEOUT)

    async def _missed(self, task_id: str, refusal: NotFound) -> NotFound:
        return await missed(self.temporal, task_id, f"task {task_id}", refusal)

    async def count(self, query: str) -> int:
        """How many tasks fit a visibility query. Visibility lags by about a second."""
        with answered("count tasks"):
            found = await self.temporal.count_workflows(_whole(query), rpc_timeout=RPC_TIMEOUT)
        return found.count

    async def tasks(self, query: str, *, limit: int = 100) -> AsyncIterator[WorkflowExecution]:
        """Tasks that fit a visibility query, newest first. Visibility lags by about a second."""
        with answered("list tasks"):
            async for found in self.temporal.list_workflows(
                _whole(query), limit=limit, rpc_timeout=RPC_TIMEOUT
            ):
                yield found


def _whole(query: str) -> str:
    return f"WorkflowType = '{names.TASK_WORKFLOW}'" + (f" AND ({query})" if query else "")


def _foreign_threads() -> set[int]:
    """Threads that Python did not start and that run Python code right now."""
    frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # documented
    return frames.keys() - {thread.ident for thread in threading.enumerate()}


def _refusal(task_id: str, error: WorkflowUpdateFailedError) -> CommandAnswer:
    """The task's answer to a command that it did not apply.

    Raises:
        CommandRefused: What was sent is no command, so that it did not even look at it.
    """
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == names.COMMAND_REFUSED:
        return CommandAnswer.model_validate(cause.details[0])
    raise CommandRefused(f"task {task_id}: {words(cause)}") from error


def _cancelled(task_id: str, how: str = "was cancelled") -> TaskEnded:
    return TaskEnded(f"task {task_id} {how}; `ascertain show {task_id}` lists its effects")


def _ended(task_id: str, cause: BaseException | None) -> AscertainError:
    match cause:
        case ApplicationError(type="Conflict"):
            return Conflict(f"task {task_id}: {cause.message}")
        case ApplicationError(type="InvalidTask"):
            return InvalidTask(f"task {task_id}: {cause.message}")
        case CancelledError():
            return _cancelled(task_id)
        case TerminatedError():
            return TaskEnded(
                f"task {task_id} was ended from outside; submit it again to have its effects ascertained"
            )
        case _:
            return TaskEnded(f"task {task_id} failed: {cause}")
