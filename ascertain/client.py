"""The client: start tasks, learn what became of them, tell them what to do."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar

from temporalio.client import (
    Client as TemporalClient,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)

from ascertain.connection import RPC_TIMEOUT, answered, connect_temporal
from ascertain.contracts import names
from ascertain.contracts.command import CommandAnswer
from ascertain.contracts.continuation import Continuation, Progress
from ascertain.contracts.delivery import Delivery, Fate
from ascertain.contracts.status import TaskStatus, Timeline
from ascertain.contracts.task import Task, TaskOutcome, TaskResult
from ascertain.door import admit, in_time, task_fingerprint
from ascertain.ending import missed, words
from ascertain.errors import (
    AscertainError,
    CommandRefused,
    Conflict,
    InvalidTask,
    LedgerDown,
    NotFound,
    SetupError,
    TaskEnded,
    TemporalDown,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping

    from pydantic import JsonValue
    from temporalio.client import (
        WorkflowExecution,
        WorkflowExecutionDescription,
        WorkflowHandle,
    )

    from ascertain.contracts.command import Command
    from ascertain.ports import Deliveries

log = logging.getLogger("ascertain.client")

KIND = SearchAttributeKey.for_keyword(names.TASK_KIND)
PARTITION = SearchAttributeKey.for_keyword(names.TASK_PARTITION)

# How a task ended of which the server knows nothing any more.
FORGOTTEN = "forgotten"

_LEAVE_WITHIN_S = 1.0
_LOOK_EVERY_S = 0.001

ResultT = TypeVar("ResultT")

# A run that ends while it is told to go on is looked at again; it does not end like that for ever.
_RACES = 5
# A run that ended like this says nothing of its effects; starting the task again begins with asking.
RESTARTABLE = frozenset(
    {
        WorkflowExecutionStatus.TERMINATED,
        WorkflowExecutionStatus.TIMED_OUT,
        WorkflowExecutionStatus.FAILED,
    }
)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A task that is durably started.

    Attributes:
        duplicate: The same task had been started before; nothing new was started.
        restarted: An earlier run had been ended from outside; the new one begins with a lookup.
    """

    task_id: str
    run_id: str
    duplicate: bool = False
    restarted: bool = False


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
        self._kinds = kinds
        self._task_timeout = task_timeout
        self._deliveries = deliveries

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
            Conflict: This task_id was started before with other content.
            TemporalDown: No answer; it may or may not be started. Submit it again: that is safe.
        """
        admitted = admit(task, self._kinds)
        if message_id is not None:
            admitted = admit(
                {**admitted.model_dump(mode="json"), "message_id": message_id}, self._kinds
            )
        try:
            in_time(admitted, datetime.now(UTC))
        except InvalidTask:
            if await self.ended(admitted.task_id) not in {None, "completed", "canceled"}:
                raise
            return await self._met_again(admitted)
        try:
            run_id = await self.start(admitted, WorkflowIDReusePolicy.REJECT_DUPLICATE)
        except WorkflowAlreadyStartedError:
            return await self._met_again(admitted)
        return Submitted(admitted.task_id, run_id)

    async def start(
        self,
        task: Task,
        reuse: WorkflowIDReusePolicy,
        progress: Progress | None = None,
        *,
        task_queue: str | None = None,
        task_timeout: timedelta | None = None,
        begun_at: datetime | None = None,
    ) -> str:
        """Start a run of an admitted task and give its id; ``submit`` is what services call.

        Args:
            task: The task.
            reuse: When a task that is over may have a further run.
            progress: What the run is given over from an earlier one.
            begun_at: When the task's first run was started; None: this is it.
            task_queue: Where it runs; None: where this client's tasks do.
            task_timeout: Of its workflow tasks; None: this client's.

        Raises:
            WorkflowAlreadyStartedError: There is a run, and ``reuse`` does not allow another.
            TemporalDown: No answer; it may or may not be started.
        """
        content = task.model_dump(mode="json", exclude_defaults=True)
        begins_nothing = progress is not None and progress.only_ascertain and not progress.ended
        with answered(f"start task {task.task_id}"):
            handle: WorkflowHandle[Any, TaskResult] = await self.temporal.start_workflow(
                names.TASK_WORKFLOW,
                content if progress is None else Continuation(task=content, progress=progress),
                id=task.task_id,
                task_queue=task_queue or self.task_queue,
                result_type=TaskResult,
                id_reuse_policy=reuse,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                task_timeout=task_timeout or self._task_timeout,
                request_eager_start=True,
                memo={
                    names.MEMO_FINGERPRINT: task_fingerprint(task),
                    names.MEMO_MESSAGE_ID: task.message_id,
                    **({names.MEMO_ONLY_ASCERTAINS: True} if begins_nothing else {}),
                    **({names.MEMO_BEGUN_AT: begun_at.isoformat()} if begun_at else {}),
                },
                search_attributes=search_attributes(task),
                rpc_timeout=RPC_TIMEOUT,
            )
        return handle.result_run_id or ""

    async def _met_again(self, task: Task) -> Submitted:
        for _ in range(_RACES):
            handle = self.temporal.get_workflow_handle(task.task_id)
            with answered(f"look at task {task.task_id}"):
                found = await handle.describe(rpc_timeout=RPC_TIMEOUT)
            await self._refuse_other_content(task, handle, found)
            submitted = await self._again(task, found)
            if submitted is not None:
                fate = Fate.RESTARTED if submitted.restarted else Fate.DUPLICATE
                await self._count(task, fate, task_fingerprint(task))
                return submitted
        raise TemporalDown(f"task {task.task_id} changed {_RACES} times meanwhile; submit it again")

    async def _refuse_other_content(
        self, task: Task, handle: WorkflowHandle[Any, Any], found: WorkflowExecutionDescription
    ) -> None:
        with answered(f"look at task {task.task_id}"):
            stored = await found.memo_value(names.MEMO_FINGERPRINT, default=None, type_hint=str)
            if stored is None:  # started by somebody who gave no memo: its content tells
                stored = await self._content_fingerprint(handle)
        offered = task_fingerprint(task)
        if stored is not None and stored != offered:
            await self._count(task, Fate.CONFLICT, offered)
            raise Conflict(
                f"task {task.task_id!r} was started before with other content (fingerprint "
                f"{stored[:12]}, now {offered[:12]}); the first stands. Use a new task_id for a new task"
            )

    async def _again(self, task: Task, found: WorkflowExecutionDescription) -> Submitted | None:
        """What became of a repeat; None if the task came to its end, or was begun, meanwhile."""
        running = found.status is WorkflowExecutionStatus.RUNNING
        begins_nothing = await found.memo_value(names.MEMO_ONLY_ASCERTAINS, default=None)
        if found.status not in RESTARTABLE and not (running and begins_nothing):
            return Submitted(task.task_id, found.run_id, duplicate=True)
        try:
            if running:
                await self._signal(task.task_id, names.PROCEED, run_id=found.run_id)
                return Submitted(task.task_id, found.run_id, restarted=True)
            run_id = await self.start(
                task,
                WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                begun_at=await first_begun(found),
            )
            return Submitted(task.task_id, run_id, restarted=True)
        except (NotFound, WorkflowAlreadyStartedError):
            return None

    async def content(self, handle: WorkflowHandle[Any, Any]) -> Task:
        """What the newest run of a task was started with, from the first event of its history.

        Raises:
            InvalidTask: It was started with no task.
        """
        events = handle.fetch_history_events(page_size=1)
        first = await anext(aiter(events))
        payloads = first.workflow_execution_started_event_attributes.input.payloads
        (content,) = await self.temporal.data_converter.decode(payloads[:1], [dict[str, Any]])
        continued = set(content) == set(Continuation.model_fields)
        return admit(content["task"] if continued else content)

    async def _content_fingerprint(self, handle: WorkflowHandle[Any, Any]) -> str | None:
        try:
            return task_fingerprint(await self.content(handle))
        except InvalidTask:
            return None  # that run refuses itself, and says so in its result

    async def _count(self, task: Task, fate: Fate, fingerprint: str) -> None:
        """A ledger that is down makes no repeat fail: what the caller asked for is true already."""
        if self._deliveries is None:
            return
        delivery = Delivery(
            task_id=task.task_id, message_id=task.message_id, fate=fate, fingerprint=fingerprint
        )
        try:
            await self._deliveries.count(delivery)
        except (LedgerDown, SetupError) as error:
            log.warning("a %s of task %s was not counted: %s", fate, task.task_id, error)

    async def result(self, task_id: str, *, within: timedelta | None = None) -> TaskResult:
        """Wait for what becomes of a task.

        Raises:
            NotFound: There is no such task.
            TaskEnded: It was cancelled, terminated or failed; the ledger knows its effects.
            TimeoutError: It is not over within that time; it goes on.
        """
        handle = self.temporal.get_workflow_handle(task_id, result_type=TaskResult)
        try:
            async with asyncio.timeout(within.total_seconds() if within else None):
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
        one that says "not now". The task itself knows which requests it has applied.

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
            raise await self._missed(task_id, error) from error
        except WorkflowUpdateFailedError as error:
            return _refusal(task_id, error)
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            if isinstance(error.__cause__, asyncio.CancelledError):
                raise asyncio.CancelledError from error  # the caller's own, which the SDK renames
            raise TemporalDown(f"no worker answered for task {task_id} in time") from error

    async def ended(self, task_id: str) -> str | None:
        """None while a workflow pursues the task; otherwise how it ended, in a word for people."""
        handle = self.temporal.get_workflow_handle(task_id)
        try:
            with answered(f"look at task {task_id}"):
                found = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        except NotFound:
            return FORGOTTEN
        if found.status is None or found.status is WorkflowExecutionStatus.RUNNING:
            return None
        return found.status.name.lower()

    async def reconcile_now(self, task_id: str) -> None:
        """Ask the outside now instead of at the next appointed time."""
        try:
            await self._signal(task_id, names.RECONCILE_NOW)
        except NotFound as error:
            raise await self._missed(task_id, error) from error

    async def resume(self, task_id: str) -> None:
        """Look at the gate now."""
        await self._signal(task_id, names.RESUME)

    async def _signal(self, task_id: str, signal: str, *, run_id: str | None = None) -> None:
        with answered(f"signal task {task_id}"):
            handle = self.temporal.get_workflow_handle(task_id, run_id=run_id)
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


async def first_begun(found: WorkflowExecutionDescription) -> datetime:
    """When the first run of a task was started, of those that gave it on."""
    told = await found.memo_value(names.MEMO_BEGUN_AT, default=None, type_hint=str)
    return found.start_time if told is None else datetime.fromisoformat(told)


def search_attributes(task: Task) -> TypedSearchAttributes:
    """What a task can be found by from its start on."""
    pairs = [SearchAttributePair(KIND, task.kind), SearchAttributePair(PARTITION, task.partition)]
    return TypedSearchAttributes(pairs)


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
