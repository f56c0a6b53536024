"""The workflow of one task: its steps in order, their undo in reverse order after a refusal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts import names
    from ascertain.contracts.command import Command, CommandAnswer
    from ascertain.contracts.directive import ReconcileIn, RunQueued
    from ascertain.contracts.effect import Effect, State, Undone
    from ascertain.contracts.fault import faults
    from ascertain.contracts.status import TaskStatus, Timeline
    from ascertain.contracts.task import (
        Continuation,
        Progress,
        StepResult,
        Task,
        TaskOutcome,
        TaskResult,
    )
    from ascertain.contracts.value import JsonObject
    from ascertain.contracts.work import Decision
    from ascertain.errors import InvalidTask

from ascertain import keys
from ascertain.door import admit
from workflows.effect import Pursuit
from workflows.view import View

if TYPE_CHECKING:
    from ascertain.contracts.directive import Directive
    from ascertain.contracts.task import Step

NOTHING = RawValue(Payload())

OUTCOME = {
    State.REFUSED: TaskOutcome.REFUSED,
    State.SUPERSEDED: TaskOutcome.REFUSED,
    State.ABANDONED: TaskOutcome.ABANDONED,
    State.CLEAR: TaskOutcome.CANCELLED,
}


@workflow.defn(name=names.TASK_WORKFLOW)
class TaskWorkflow:
    """One task is one workflow whose id is the ``task_id``. Started with the task's public JSON."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._view = View()
        self._pursuit: Pursuit | None = None
        self._steps: list[StepResult] = []
        self._undone: list[StepResult] = []
        self._ending: TaskOutcome | None = None
        self._route: RunQueued | None = None
        self._cancelling = False
        self._only_ascertain = False
        self._deciding = asyncio.Lock()
        self._answered: dict[str, CommandAnswer] = {}

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
        self._task, progress = _admitted(content)
        self._go_on_from(progress)
        outcome = await self._uninterrupted(self._task)
        if outcome is TaskOutcome.CANCELLED:
            raise self._stopped()
        return TaskResult(
            task_id=self._task.task_id,
            outcome=outcome,
            steps=tuple(self._steps),
            undone=tuple(self._undone),
        )

    def _go_on_from(self, progress: Progress) -> None:
        self._steps, self._undone = list(progress.steps), list(progress.undone)
        self._ending, self._route = progress.ending, progress.route
        self._only_ascertain = progress.only_ascertain

    def _stopped(self) -> BaseException:
        if self._cancelling:
            return asyncio.CancelledError()
        message = "every effect that was begun is ascertained; submit the task again to go on"
        return ApplicationError(message, type="Ascertained", non_retryable=True)

    async def _uninterrupted(self, task: Task) -> TaskOutcome:
        """A cancellation is noted, never thrown into the middle of an effect."""
        work = asyncio.create_task(self._work(task))
        while True:
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                if work.cancelled():  # the worker lets go of the run and cancels all that is in it
                    raise
                self._cancelling = True
                if self._pursuit is not None:
                    self._pursuit.interrupt()

    async def _work(self, task: Task) -> TaskOutcome:
        if self._ending is None:
            self._ending = await self._forward(task)
        if self._takes_back(task, self._ending):
            await self._back(task)
            if any(done.state is State.CLEAR for done in self._undone):
                self._ending = TaskOutcome.CANCELLED  # an undo is still owed
        self._view.close(self._ending)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self._ending

    async def _forward(self, task: Task) -> TaskOutcome:
        for step in task.steps[len(self._steps) :]:
            if self._cancelling:
                return TaskOutcome.CANCELLED
            done = await self._pursue(_effect(task, step))
            self._steps.append(done)
            if done.state is not State.SETTLED:
                return OUTCOME[done.state]
        return TaskOutcome.DONE

    def _takes_back(self, task: Task, outcome: TaskOutcome) -> bool:
        if outcome is TaskOutcome.CANCELLED:
            return task.undo_on_cancel
        return outcome is TaskOutcome.REFUSED

    async def _back(self, task: Task) -> None:
        settled = [done for done in self._steps if done.state is State.SETTLED]
        undoing = [undo for done in reversed(settled) if (undo := _undo(task, done)) is not None]
        for effect in undoing[len(self._undone) :]:
            self._undone.append(await self._pursue(effect))

    async def _pursue(self, effect: Effect) -> StepResult:
        pursuit = Pursuit(
            effect,
            on_directive=self._obeying,
            halt=lambda: self._halts(undo=effect.undoes is not None),
        )
        pursuit.route, self._route = self._route, None
        self._view.begin(effect)
        self._pursuit = pursuit
        try:
            return await pursuit.run()
        finally:
            self._pursuit = None

    def _halts(self, *, undo: bool) -> bool:
        """Whether nothing new is to be done; what was begun is ascertained all the same."""
        return self._only_ascertain or (self._cancelling and not undo)

    def _obeying(self, effect: Effect, following: Directive) -> None:
        self._view.follow(effect, following)
        carries = isinstance(following, ReconcileIn) and following.unrecorded is not None
        # An outcome that only this history holds must reach the ledger before the history is left.
        if workflow.info().is_continue_as_new_suggested() and not (self._cancelling or carries):
            self._continue()

    def _continue(self) -> None:
        """Long waits make long histories: go on in a new one. Open commands are answered first."""
        if self._deciding.locked() or self._pursuit is None or self._task is None:
            return
        progress = Progress(
            steps=tuple(self._steps),
            undone=tuple(self._undone),
            ending=self._ending,
            route=self._pursuit.route,
            only_ascertain=self._only_ascertain,
        )
        content = self._task.model_dump(mode="json", exclude_defaults=True)
        workflow.continue_as_new(Continuation(task=content, progress=progress))

    @workflow.update(name=names.TAKEOVER, description="A person's command for the open effect")
    async def takeover(self, command: JsonObject) -> CommandAnswer:
        """Apply a takeover command.

        Raises:
            ApplicationError: ``CommandRefused``, with the answer as its detail. The update fails, so that
                whoever gave the command sees it, with any client; the task goes on.
        """
        answer = await self._answer(command)
        if not answer.applied:
            raise ApplicationError(answer.message, answer, type=names.COMMAND_REFUSED)
        return answer

    @takeover.validator
    def _takeover_is_a_command(self, command: JsonObject) -> None:
        self._admitted(command)

    @workflow.signal(
        name=names.TAKEOVER,
        description='{"action", "operator", "reason", "version"}: a person\'s command',
    )
    async def takeover_signal(self, command: Any = None, _: Any = None) -> None:  # noqa: ANN401  # any may come
        """The same as the update, for tools that can only signal; refusals stand in the status."""
        answer = await self._answer(command)
        if not answer.applied:
            self._view.refuse("", names.TAKEOVER, answer.message)

    @workflow.signal(name=names.RECONCILE_NOW, description="Ask the outside now")
    def reconcile_now(self) -> None:
        """End the current wait."""
        self._wake()

    @workflow.signal(name=names.RESUME, description="Look at the gate now")
    def resume(self) -> None:
        """End the current wait."""
        self._wake()

    @workflow.query(name=names.STATUS, description="Where the task stands")
    def status(self) -> TaskStatus:
        """Where the task stands."""
        task = self._task
        return TaskStatus(
            task_id=workflow.info().workflow_id,
            kind=task.kind if task else "",
            partition=task.partition if task else "",
            state=self._view.state,
            cancelling=self._cancelling,
            outcome=self._ending,
            steps=tuple(self._steps),
            undone=tuple(self._undone),
            open=self._view.open,
            refused_commands=tuple(self._view.refused),
        )

    @workflow.query(name=names.TIMELINE, description="What happened, oldest first")
    def timeline(self) -> Timeline:
        """What happened, oldest first."""
        return Timeline(entries=tuple(self._view.entries))

    def _wake(self) -> None:
        if self._pursuit is not None:
            self._pursuit.wake()

    def _admitted(self, command: object) -> Command:
        """The command, or a ValueError whose text is one sentence for its sender."""
        try:
            admitted = Command.model_validate(command)
        except ValidationError as error:
            raise ValueError(f"not a takeover command: {faults(error)}") from None
        pursuit = self._pursuit
        if pursuit is None:
            msg = "the task has no open effect now, so there is nothing to decide"
            raise ValueError(msg)
        if admitted.effect_id not in {None, pursuit.effect.effect_id}:
            msg = f"the open effect is {pursuit.effect.effect_id}, not {admitted.effect_id}"
            raise ValueError(msg)
        # A command that waits its turn is for this effect, whatever the task has come to by then.
        return admitted.model_copy(update={"effect_id": pursuit.effect.effect_id})

    async def _answer(self, command: object) -> CommandAnswer:
        try:
            admitted = self._admitted(command)
        except ValueError as error:
            return CommandAnswer(applied=False, message=str(error))
        return await self._decide(admitted)

    async def _decide(self, command: Command) -> CommandAnswer:
        async with self._deciding:
            repeated = self._answered.get(command.request_id or "")
            if repeated is not None:
                return repeated
            pursuit = self._pursuit
            if pursuit is None or pursuit.effect.effect_id != command.effect_id:
                message = f"{command.action} refused: {command.effect_id} was closed meanwhile"
                return CommandAnswer(applied=False, message=message)
            answer = await pursuit.decide(Decision(effect=pursuit.effect, command=command))
            self._view.note(pursuit.effect.step, command.action.value, answer.message)
            if answer.applied:
                if command.request_id:
                    self._answered[command.request_id] = answer
                pursuit.wake()
            return answer


def _admitted(content: RawValue) -> tuple[Task, Progress]:
    """The task, by the same rules as at the client's door, and what an earlier run gives over."""
    try:
        given = _decoded(content)
        task, progress = given, Progress()
        if set(given) == set(Continuation.model_fields):
            continuation = Continuation.model_validate(given)
            task, progress = continuation.task, continuation.progress
        admitted = admit(task)
    except (InvalidTask, ValueError) as error:
        raise ApplicationError(str(error), type="InvalidTask", non_retryable=True) from None
    if admitted.task_id != workflow.info().workflow_id:
        message = (
            f"the workflow id {workflow.info().workflow_id} must be the task_id {admitted.task_id}"
        )
        raise ApplicationError(message, type="InvalidTask", non_retryable=True)
    return admitted, progress


def _decoded(content: RawValue) -> JsonObject:
    """The argument as JSON; a ValueError that never repeats the argument if it is none."""
    try:
        decoded: JsonObject = workflow.payload_converter().from_payload(
            content.payload, dict[str, Any]
        )
    except Exception:  # noqa: BLE001  # a codec may raise anything over bytes that anybody sent
        msg = "the workflow's one argument must be a task as JSON"
        raise ValueError(msg) from None
    return decoded


def _effect(task: Task, step: Step) -> Effect:
    return Effect(
        effect_id=keys.effect_id(workflow.info().namespace, task.task_id, step.name, 0),
        task_id=task.task_id,
        step=step.name,
        kind=step.kind,
        partition=task.partition,
        message_id=task.message_id,
        input=step.input,
    )


def _undo(task: Task, done: StepResult) -> Effect | None:
    step = next(step for step in task.steps if step.name == done.step)
    if step.undo is None or done.receipt is None:
        return None
    name = keys.undo_step(step.name)
    return Effect(
        effect_id=keys.effect_id(workflow.info().namespace, task.task_id, name, 0),
        task_id=task.task_id,
        step=name,
        kind=step.undo.kind,
        partition=task.partition,
        message_id=task.message_id,
        input=step.undo.input,
        undoes=Undone(effect_id=done.effect_id, external_id=done.receipt.external_id),
    )
