"""How a task is started, once, and what a repeat of its start comes to."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from temporalio.client import WorkflowExecutionStatus
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError

from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.continuation import Continuation, Progress
from ascertain.contracts.delivery import Delivery, Fate
from ascertain.contracts.task import Task, TaskResult
from ascertain.door import admit, in_time, task_fingerprint
from ascertain.ending import ended, is_task, turned_away
from ascertain.errors import (
    Conflict,
    InvalidTask,
    LedgerDown,
    NotFound,
    SetupError,
    TemporalDown,
)
from ascertain.predecessor import given_past, is_continued, started_with

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from temporalio.client import (
        Client,
        WorkflowExecutionDescription,
        WorkflowHandle,
    )

    from ascertain.ports import Deliveries

log = logging.getLogger("ascertain.starting")

_KIND = SearchAttributeKey.for_keyword(names.TASK_KIND)
_PARTITION = SearchAttributeKey.for_keyword(names.TASK_PARTITION)

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


@dataclass(frozen=True, slots=True)
class Starting:
    """Starts tasks in one namespace.

    Attributes:
        task_queue: Where the deployment's workflows run.
        task_timeout: Workflow task time-out of started tasks; None: the server's.
        deliveries: Who counts requests for tasks that are there already; None: nobody.
    """

    temporal: Client
    task_queue: str
    task_timeout: timedelta | None
    deliveries: Deliveries | None

    async def submit(self, task: Task, begun_at: datetime | None = None) -> Submitted:
        """Start an admitted task, once, however often it is asked for.

        Args:
            task: The task.
            begun_at: Since when it may have been at work elsewhere; None: it begins now.

        Raises:
            InvalidTask: Its deadline has passed, and it does not run; nothing was started.
            Conflict: It was started before with other content, or its id is that of no task.
            TemporalDown: It may or may not be started.
        """
        try:
            in_time(task, datetime.now(UTC))
        except InvalidTask:
            if await ended(self.temporal, task.task_id) not in {None, "completed", "canceled"}:
                raise
            return await self._met_again(task)
        try:
            before = {names.MEMO_BEGUN_AT: begun_at.isoformat()} if begun_at else {}
            run_id = await self.start(task, WorkflowIDReusePolicy.REJECT_DUPLICATE, before=before)
        except WorkflowAlreadyStartedError:
            return await self._met_again(task)
        return Submitted(task.task_id, run_id)

    async def start(
        self,
        task: Task,
        reuse: WorkflowIDReusePolicy,
        progress: Progress | None = None,
        *,
        task_queue: str | None = None,
        task_timeout: timedelta | None = None,
        before: Mapping[str, object] | None = None,
    ) -> str:
        """Start a run of an admitted task and give its id.

        Args:
            task: The task.
            reuse: When a task that is over may have a further run.
            progress: What the run is given over from an earlier one.
            before: What its memo says of earlier runs; None: it is the first.
            task_queue: Where it runs; None: where all others do.
            task_timeout: Of its workflow tasks; None: that of all others.

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
                task_timeout=task_timeout or self.task_timeout,
                request_eager_start=True,
                memo={
                    names.MEMO_FINGERPRINT: task_fingerprint(task),
                    names.MEMO_MESSAGE_ID: task.message_id,
                    **({names.MEMO_ONLY_ASCERTAINS: True} if begins_nothing else {}),
                    **(before or {}),
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
            await self._refuse_other_content(task, found)
            submitted = await self._again(task, found)
            if submitted is not None:
                fate = Fate.RESTARTED if submitted.restarted else Fate.DUPLICATE
                await self._count(task, fate, task_fingerprint(task))
                return submitted
        raise TemporalDown(f"task {task.task_id} changed {_RACES} times meanwhile; submit it again")

    async def _refuse_other_content(self, task: Task, found: WorkflowExecutionDescription) -> None:
        offered = task_fingerprint(task)
        if not is_task(found):
            await self._count(task, Fate.CONFLICT, offered)
            raise Conflict(
                f"task {task.task_id!r} was not started: the workflow {found.workflow_type} of this id is no "
                "task. Use another task_id"
            )
        with answered(f"look at task {task.task_id}"):
            stored = await found.memo_value(names.MEMO_FINGERPRINT, default=None, type_hint=str)
            if stored is None:  # started by somebody who gave no memo: its content tells
                stored = await self._content_fingerprint(task.task_id)
        if stored is None or stored == offered:
            return
        if not await turned_away(self.temporal, found):
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
                await self._proceed(task.task_id, found.run_id)
                return Submitted(task.task_id, found.run_id, restarted=True)
            run_id = await self.start(
                task,
                WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                before=await given_past(self.temporal, found),
            )
            return Submitted(task.task_id, run_id, restarted=True)
        except (NotFound, WorkflowAlreadyStartedError):
            return None

    async def _proceed(self, task_id: str, run_id: str) -> None:
        with answered(f"signal task {task_id}"):
            handle = self.temporal.get_workflow_handle(task_id, run_id=run_id)
            await handle.signal(names.PROCEED, rpc_timeout=RPC_TIMEOUT)

    async def content(self, task_id: str) -> Task:
        """What the newest run of a task was started with.

        Raises:
            InvalidTask: It was started with no task.
            NotFound: There is no such task.
            TemporalDown: It cannot be told now.
        """
        content = await started_with(self.temporal, task_id)
        return admit(content["task"] if is_continued(content) else content)

    async def _content_fingerprint(self, task_id: str) -> str | None:
        try:
            return task_fingerprint(await self.content(task_id))
        except InvalidTask:
            return None  # that run refuses itself, and says so in its result

    async def _count(self, task: Task, fate: Fate, fingerprint: str) -> None:
        """A ledger that is down makes no repeat fail: what the caller asked for is true already."""
        if self.deliveries is None:
            return
        delivery = Delivery(
            task_id=task.task_id, message_id=task.message_id, fate=fate, fingerprint=fingerprint
        )
        try:
            await self.deliveries.count(delivery)
        except (LedgerDown, SetupError) as error:
            log.warning("a %s of task %s was not counted: %s", fate, task.task_id, error)


def search_attributes(task: Task) -> TypedSearchAttributes:
    """What a task can be found by from its start on."""
    pairs = [SearchAttributePair(_KIND, task.kind), SearchAttributePair(_PARTITION, task.partition)]
    return TypedSearchAttributes(pairs)
