"""The workflow of one task: what Temporal starts, cancels and continues, and what people say and ask."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts import names
    from ascertain.contracts.command import CommandAnswer
    from ascertain.contracts.continuation import Continuation, Progress
    from ascertain.contracts.directive import Done, ReconcileIn, Superseded
    from ascertain.contracts.status import TaskStatus, Timeline
    from ascertain.contracts.task import Task, TaskOutcome, TaskResult

from workflows.answered import Answers
from workflows.argument import NOTHING
from workflows.content import admitted, memo_so_far
from workflows.course import Course
from workflows.takeover import Takeover
from workflows.view import View

if TYPE_CHECKING:
    from datetime import datetime

    from ascertain.contracts.directive import Directive
    from ascertain.contracts.effect import Effect

# A timer of centuries is more than the server can count.
LONGEST_SLEEP = timedelta(days=365)


@workflow.defn(name=names.TASK_WORKFLOW)
class TaskWorkflow:
    """One task is one workflow whose id is the ``task_id``. Started with the task's public JSON."""

    def __init__(self) -> None:
        self._view = View()
        self._course = Course(self._view, self._obeying)
        self._takeover = Takeover(self._course, self._view)
        self._cancel_requested = False
        self._proceeds = False
        self._ended = False
        self._expiring: asyncio.Task[None] | None = None

    @workflow.run
    async def run(self, content: RawValue = NOTHING) -> TaskResult:
        """Bring every step's effect about, or take back what was done.

        Args:
            content: The task's public JSON, or a ``Continuation``. Decoded here: anybody may start this
                workflow, and what cannot be decoded must end it with a sentence instead of failing its
                first workflow task for ever.

        Raises:
            ApplicationError: ``InvalidTask`` or ``Conflict``; nothing was done outside by this run.
        """
        task, progress = admitted(content)
        self._go_on_from(task, progress)
        if task.deadline is not None:
            self._expiring = asyncio.create_task(self._expire(task.deadline))
        outcome = await self._uninterrupted(task)
        if outcome is TaskOutcome.CANCELLED:
            self._raise_if_stopped()
        return TaskResult(
            task_id=task.task_id,
            outcome=outcome,
            steps=tuple(self._course.steps),
            undone=tuple(self._course.undone),
        )

    def _go_on_from(self, task: Task, progress: Progress) -> None:
        only_ascertain = progress.only_ascertain and not self._proceeds
        self._course.begin(task, progress.model_copy(update={"only_ascertain": only_ascertain}))
        self._ended, self._takeover.answers = progress.ended, Answers(progress.answered)
        if progress.shown is not None:
            self._view.resume(progress.shown)

    def _raise_if_stopped(self) -> None:
        """A cancellation that an earlier history was told of ends this one with a result instead."""
        if self._cancel_requested:
            raise asyncio.CancelledError
        if self._course.cancelling or self._ended:
            return
        message = "every effect that was begun is ascertained; submit the task again to go on"
        raise ApplicationError(message, type="Ascertained", non_retryable=True)

    async def _expire(self, deadline: datetime) -> None:
        """From its deadline on a task begins nothing; what is under way is let finish, and ascertained."""
        while (left := deadline - workflow.now()) > timedelta(0):
            await workflow.sleep(min(left, LONGEST_SLEEP))
        self._course.cancelling = True
        self._course.wake()

    async def _uninterrupted(self, task: Task) -> TaskOutcome:
        """A cancellation is noted, never thrown into the middle of an effect."""
        if workflow.cancellation_reason() is not None and workflow.patched(
            names.HEARS_CANCEL_FIRST
        ):
            # It came before anything was begun, and would be heard only after the first step was.
            self._course.cancelling = self._cancel_requested = True
        work = asyncio.create_task(self._work(task))
        while True:
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                if work.cancelled():  # the worker lets go of the run and cancels all that is in it
                    raise
                self._course.cancelling = self._cancel_requested = True
                if self._course.pursuit is not None:
                    self._course.pursuit.interrupt()

    async def _work(self, task: Task) -> TaskOutcome:
        course = self._course
        while True:
            outcome = await course.run(task)
            self._view.close(outcome)
            await workflow.wait_condition(workflow.all_handlers_finished)
            if outcome is not TaskOutcome.CANCELLED or course.cancelling or course.only_ascertain:
                return outcome
            course.begin_again()  # it was told to proceed when it had come to its end

    def _obeying(self, effect: Effect, following: Directive) -> None:
        self._view.follow(effect, following)
        if isinstance(following, Superseded):
            self._course.amend(effect)
        if isinstance(following, Done) and following.ordered_back:
            self._course.recall(effect.step)
        carries = isinstance(following, ReconcileIn) and following.unrecorded is not None
        # An outcome that only this history holds must reach the ledger before the history is left.
        if workflow.info().is_continue_as_new_suggested() and not carries:
            self._continue()

    def _continue(self) -> None:
        """Long waits make long histories: go on in a new one. Open commands are answered first."""
        course, task = self._course, self._course.task
        # A lock that was just let go of is nobody's, though a command waits for it.
        if not workflow.all_handlers_finished() or course.pursuit is None or task is None:
            return
        told = {"ended": self._ended, "shown": self._view.shown()}
        answered = {"answered": self._takeover.answers.kept}
        progress = course.progress(task).model_copy(update=told | answered)
        content = task.model_dump(mode="json", exclude_defaults=True)
        # The server gives on what the first history was started with, and nothing that was told since.
        begun_at = {names.MEMO_BEGUN_AT: course.begun_at.isoformat()}
        memo = {**memo_so_far(), **begun_at, **course.memo()}
        workflow.continue_as_new(Continuation(task=content, progress=progress), memo=memo)

    @workflow.update(name=names.TAKEOVER, description="A person's command for the open effect")
    async def takeover(self, command: RawValue = NOTHING) -> CommandAnswer:
        """Apply a takeover command, or put it on record for a second person.

        Raises:
            ApplicationError: ``CommandRefused``, with the answer as its detail. The update fails, so that
                whoever gave the command sees it, with any client; the task goes on.
        """
        answer = await self._takeover.answer(command, on_record=False)
        if not (answer.applied or answer.pending):
            raise ApplicationError(answer.message, answer, type=names.COMMAND_REFUSED)
        return answer

    @takeover.validator
    def _takeover_is_a_command(self, command: RawValue = NOTHING) -> None:
        self._takeover.admit(command)

    @workflow.signal(
        name=names.TAKEOVER,
        description='{"action", "operator", "reason", "version"}: a person\'s command',
    )
    async def takeover_signal(self, command: RawValue = NOTHING, *_: RawValue) -> None:
        """The same as the update, for tools that can only signal; refusals stand in the status."""
        answer = await self._takeover.answer(command, on_record=True)
        if not (answer.applied or answer.pending):
            self._view.refuse("", names.TAKEOVER, answer.message)

    @workflow.signal(name=names.RECONCILE_NOW, description="Ask the outside now")
    def reconcile_now(self) -> None:
        """End the current wait."""
        self._course.wake()

    @workflow.signal(name=names.PROCEED, description="Go on with a task that is only ascertained")
    def proceed(self) -> None:
        """The task was submitted again while what an ended run had begun is found out."""
        self._course.only_ascertain, self._proceeds = False, True
        workflow.upsert_memo({names.MEMO_ONLY_ASCERTAINS: None})
        self._course.wake()

    @workflow.signal(name=names.RESUME, description="Look at the gate now")
    def resume(self) -> None:
        """End the current wait."""
        self._course.wake()

    @workflow.query(name=names.STATUS, description="Where the task stands")
    def status(self) -> TaskStatus:
        """Where the task stands."""
        course, task = self._course, self._course.task
        return TaskStatus(
            task_id=workflow.info().workflow_id,
            kind=task.kind if task else "",
            partition=task.partition if task else "",
            state=self._view.state,
            cancelling=course.cancelling,
            only_ascertains=course.only_ascertain,
            deadline=task.deadline if task else None,
            outcome=course.ending,
            steps=tuple(course.steps),
            undone=tuple(course.undone),
            undoable=tuple(course.undoable(task)) if task else (),
            open=self._view.open,
            refused_commands=tuple(self._view.refused),
            pending_commands=tuple(self._view.pending),
        )

    @workflow.query(name=names.TIMELINE, description="What happened, oldest first")
    def timeline(self) -> Timeline:
        """What happened, oldest first."""
        return Timeline(entries=tuple(self._view.entries))
