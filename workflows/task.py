"""The workflow of one task: its steps in order, their undo in reverse order after a refusal."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from ascertain.contracts import names
    from ascertain.contracts.command import Action, Command, CommandAnswer, Freed
    from ascertain.contracts.continuation import Amendment, Continuation, Progress
    from ascertain.contracts.directive import ReconcileIn, RunQueued, Superseded
    from ascertain.contracts.effect import Effect, State
    from ascertain.contracts.fault import faults
    from ascertain.contracts.status import TaskStatus, Timeline
    from ascertain.contracts.task import StepResult, Task, TaskOutcome, TaskResult
    from ascertain.contracts.work import Known

from ascertain import keys
from workflows.argument import NOTHING, decoded
from workflows.content import (
    admit_input,
    admitted,
    as_amended,
    decision_about,
    effect_of,
    given_on,
    memo_so_far,
    undo_of,
)
from workflows.effect import Pursuit
from workflows.view import View

if TYPE_CHECKING:
    from datetime import datetime

    from ascertain.contracts.directive import Directive

# Repeats come within minutes; what is kept travels from history to history.
ANSWERS_KEPT = 20
# A look into the ledger is safe to repeat.
LEDGER_TIMEOUT = timedelta(seconds=10)
AGAIN = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
LONGEST_HELD = timedelta(seconds=2)
# A timer of centuries is more than the server can count.
LONGEST_SLEEP = timedelta(days=365)

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
        self._cancel_requested = False
        self._only_ascertain = False
        self._given_up = False
        self._taking_back: list[str] = []
        self._proceeds = False
        self._ended = False
        self._expiring: asyncio.Task[None] | None = None
        self._deciding = asyncio.Lock()
        self._answered: dict[str, CommandAnswer] = {}
        self._begun_at = workflow.info().workflow_start_time
        self._amended: dict[str, Amendment] = {}

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
        self._task, progress = admitted(content)
        self._go_on_from(progress)
        if self._task.deadline is not None:
            self._expiring = asyncio.create_task(self._expire(self._task.deadline))
        outcome = await self._uninterrupted(self._task)
        if outcome is TaskOutcome.CANCELLED:
            self._raise_if_stopped()
        return TaskResult(
            task_id=self._task.task_id,
            outcome=outcome,
            steps=tuple(self._steps),
            undone=tuple(self._undone),
        )

    def _go_on_from(self, progress: Progress) -> None:
        self._steps, self._undone = list(progress.steps), list(progress.undone)
        self._ending, self._route = progress.ending, progress.route
        self._only_ascertain = progress.only_ascertain and not self._proceeds
        self._ended, self._answered = progress.ended, dict(progress.answered)
        self._cancelling = self._cancelling or progress.cancelling
        before = given_on()
        ordered = (*before.taking_back, *keys.ordered_back(progress))
        self._taking_back, self._given_up = [*dict.fromkeys(ordered)], bool(ordered)
        self._begun_at = progress.begun_at or before.begun_at or self._begun_at
        self._amended = {**before.amended, **progress.amended}
        if progress.shown is not None:
            self._view.resume(progress.shown)

    def _raise_if_stopped(self) -> None:
        """A cancellation that an earlier history was told of ends this one with a result instead."""
        if self._cancel_requested:
            raise asyncio.CancelledError
        if self._cancelling or self._ended:
            return
        message = "every effect that was begun is ascertained; submit the task again to go on"
        raise ApplicationError(message, type="Ascertained", non_retryable=True)

    async def _expire(self, deadline: datetime) -> None:
        """From its deadline on a task begins nothing; what is under way is let finish, and ascertained."""
        while (left := deadline - workflow.now()) > timedelta(0):
            await workflow.sleep(min(left, LONGEST_SLEEP))
        self._cancelling = True
        self._wake()

    async def _uninterrupted(self, task: Task) -> TaskOutcome:
        """A cancellation is noted, never thrown into the middle of an effect."""
        work = asyncio.create_task(self._work(task))
        while True:
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                if work.cancelled():  # the worker lets go of the run and cancels all that is in it
                    raise
                self._cancelling = self._cancel_requested = True
                if self._pursuit is not None:
                    self._pursuit.interrupt()

    async def _work(self, task: Task) -> TaskOutcome:
        while True:
            outcome = await self._once(task)
            self._view.close(outcome)
            await workflow.wait_condition(workflow.all_handlers_finished)
            if outcome is not TaskOutcome.CANCELLED or self._cancelling or self._only_ascertain:
                return outcome
            self._begin_again()  # it was told to proceed when it had come to its end

    async def _once(self, task: Task) -> TaskOutcome:
        if self._ending is None:
            ending = await self._forward(task)
            if not workflow.all_handlers_finished() and workflow.patched(names.HEARS_TO_THE_LAST):
                # An order to take a step back may be on record already.
                await workflow.wait_condition(workflow.all_handlers_finished)
                gives_up = self._given_up and ending is TaskOutcome.DONE
                ending = TaskOutcome.ABANDONED if gives_up else ending
            self._ending = ending
        await self._take_back()
        rest = await self._rest(task)
        await self._ask_for(task, rest)
        takes_back = self._takes_back(task, self._ending)
        if takes_back or rest:
            await self._back(task, None if takes_back else rest)
        owes = any(done.state is State.CLEAR for done in self._undone)
        if owes and (takes_back or rest or workflow.patched(names.REMEMBERS_UNDO)):
            self._ending = TaskOutcome.CANCELLED
        return self._ending

    async def _rest(self, task: Task) -> frozenset[str]:
        """The steps that the ledger knows of, if others may have begun what this run did not come to.

        An earlier run may, or whoever wrote into the ledger what another system had begun.
        """
        info = (
            workflow.info()
        )  # a run that was reset starts when its first one did, and is not that one
        first = (
            self._begun_at == info.workflow_start_time
            and info.run_id == info.first_execution_run_id
        )
        came_to_all = first and len(self._steps) == len(task.steps)
        if came_to_all or not workflow.patched(names.LOOKS_AFTER_REST):
            return frozenset()
        known: Known = await workflow.execute_local_activity(
            names.REST,
            task.task_id,
            result_type=Known,
            start_to_close_timeout=LEDGER_TIMEOUT,
            retry_policy=AGAIN,
            # A ledger that stays away is waited for by timers, not with a workflow task that is kept open.
            local_retry_threshold=LONGEST_HELD,
        )
        return frozenset(known.steps)

    async def _ask_for(self, task: Task, rest: frozenset[str]) -> None:
        """No task ends while what may exist of it is neither asked for nor in a person's hands."""
        for step in task.steps:
            if step.name in rest and step.name not in {done.step for done in self._steps}:
                try:
                    self._add(task, await self._pursue(effect_of(task, step)))
                except (
                    ApplicationError
                ) as error:  # what stands under its id is no effect of this task
                    self._view.note(step.name, "conflict", error.message)

    def _begin_again(self) -> None:
        """What is settled stands, and is answered from the ledger where it is met again."""
        self._steps = [done for done in self._steps if done.state is State.SETTLED]
        self._undone = []
        self._ending = None

    async def _forward(self, task: Task) -> TaskOutcome:
        known = {done.step for done in self._steps}
        for step in [step for step in task.steps if step.name not in known]:
            if self._gives_up and not workflow.patched(names.WITHDRAWS):
                return TaskOutcome.CANCELLED if self._cancelling else TaskOutcome.ABANDONED
            begins = not self._gives_up
            done = await self._pursue(effect_of(task, step))
            if begins or done.state is not State.ABANDONED:
                self._add(task, done)
            if done.state is State.ABANDONED and self._cancelling:
                return TaskOutcome.CANCELLED
            if done.state is not State.SETTLED:
                return self._outcome(done.state)
        return TaskOutcome.ABANDONED if self._given_up else TaskOutcome.DONE

    def _add(self, task: Task, done: StepResult) -> None:
        order = [step.name for step in task.steps]
        self._steps = sorted([*self._steps, done], key=lambda result: order.index(result.step))

    def _outcome(self, state: State) -> TaskOutcome:
        stopped = self._cancelling or self._only_ascertain
        if state is State.CLEAR and self._given_up and not stopped:
            return TaskOutcome.ABANDONED
        return OUTCOME[state]

    def _takes_back(self, task: Task, outcome: TaskOutcome) -> bool:
        if outcome is TaskOutcome.CANCELLED:
            return task.undo_on_cancel
        return outcome is TaskOutcome.REFUSED

    async def _back(self, task: Task, known: frozenset[str] | None) -> None:
        """Take back what is settled, or only those whose undo is known to be begun."""
        settled = [done for done in self._steps if done.state is State.SETTLED]
        undoing = [undo for done in reversed(settled) if (undo := undo_of(task, done)) is not None]
        for effect in undoing:
            wanted = known is None or effect.step in known
            if wanted and effect.step not in {done.step for done in self._undone}:
                self._undone.append(await self._pursue(effect))

    async def _take_back(self) -> None:
        """What persons ordered to be taken back, before anything else is touched."""
        while self._task is not None and (owed := self._owed(self._task)):
            self._undone.append(await self._pursue(next(iter(owed.values()))))

    def _owed(self, task: Task) -> dict[str, Effect]:
        """What was ordered to be taken back and is not yet, by step; of a step, once it is known to exist."""
        settled = {done.step: done for done in self._steps if done.state is State.SETTLED}
        undone = {done.step for done in self._undone}
        undoing = {
            step: undo_of(task, settled[step]) for step in self._taking_back if step in settled
        }
        return {
            step: undo
            for step, undo in undoing.items()
            if undo is not None and undo.step not in undone
        }

    async def _pursue(self, effect: Effect) -> StepResult:
        undo = effect.undoes is not None
        effect = as_amended(effect, self._amended)
        pursuit = Pursuit(
            effect.model_copy(update={"begun_at": self._begun_at}),
            on_directive=self._obeying,
            halt=lambda: self._halts(undo=undo),
            withdraw=lambda: self._gives_up and not undo,
            before_turn=_nothing if undo else self._take_back,
            deadline=None if undo or self._task is None else self._task.deadline,
        )
        pursuit.route, self._route = self._route, None
        self._view.begin(effect)
        waiting, self._pursuit = self._pursuit, pursuit
        try:
            return await pursuit.run()
        finally:
            self._pursuit = waiting
            if waiting is not None:
                self._view.begin(waiting.effect)

    def _halts(self, *, undo: bool) -> bool:
        """Whether nothing new is to be done; what was begun is ascertained all the same."""
        ends = self._gives_up or self._ending is not None
        return self._only_ascertain or (ends and not undo)

    @property
    def _gives_up(self) -> bool:
        """Whether what was not begun is not to be begun by anybody."""
        return self._cancelling or self._given_up

    def _obeying(self, effect: Effect, following: Directive) -> None:
        self._view.follow(effect, following)
        if isinstance(following, Superseded):
            self._remember_amendment(effect)
        carries = isinstance(following, ReconcileIn) and following.unrecorded is not None
        # An outcome that only this history holds must reach the ledger before the history is left.
        if workflow.info().is_continue_as_new_suggested() and not carries:
            self._continue()

    def _remember_amendment(self, effect: Effect) -> None:
        """A ledger that is restored forgets it, and a further run knows of this one its memo alone."""
        self._amended[effect.step] = Amendment(revision=effect.revision, input=effect.input)
        if workflow.patched(names.REMEMBERS_AMENDMENTS):
            workflow.upsert_memo(self._memo_of_persons())

    def _memo_of_persons(self) -> dict[str, object]:
        """What persons said that every further run of the task must know."""
        told = {step: by.model_dump(mode="json") for step, by in self._amended.items()}
        return {
            **({names.MEMO_AMENDED: told} if told else {}),
            **({names.MEMO_GIVEN_UP: self._taking_back} if self._taking_back else {}),
        }

    def _continue(self) -> None:
        """Long waits make long histories: go on in a new one. Open commands are answered first."""
        # A lock that was just let go of is nobody's, though a command waits for it.
        if not workflow.all_handlers_finished() or self._pursuit is None or self._task is None:
            return
        owed = self._owed(self._task)
        progress = Progress(
            steps=tuple(self._steps),
            undone=tuple(self._undone),
            ending=self._ending,
            route=None if owed else self._pursuit.route,
            only_ascertain=self._only_ascertain,
            taking_back=tuple(owed),
            given_up=self._given_up,
            amended=self._amended,
            ended=self._ended,
            begun_at=self._begun_at,
            cancelling=self._cancelling,
            shown=self._view.shown(),
            answered=self._answered,
        )
        content = self._task.model_dump(mode="json", exclude_defaults=True)
        # The server gives on what the first history was started with, and nothing that was told since.
        begun_at = {names.MEMO_BEGUN_AT: self._begun_at.isoformat()}
        memo = {**memo_so_far(), **begun_at, **self._memo_of_persons()}
        workflow.continue_as_new(Continuation(task=content, progress=progress), memo=memo)

    @workflow.update(name=names.TAKEOVER, description="A person's command for the open effect")
    async def takeover(self, command: RawValue = NOTHING) -> CommandAnswer:
        """Apply a takeover command, or put it on record for a second person.

        Raises:
            ApplicationError: ``CommandRefused``, with the answer as its detail. The update fails, so that
                whoever gave the command sees it, with any client; the task goes on.
        """
        answer = await self._answer(command)
        if not (answer.applied or answer.pending):
            raise ApplicationError(answer.message, answer, type=names.COMMAND_REFUSED)
        return answer

    @takeover.validator
    def _takeover_is_a_command(self, command: RawValue = NOTHING) -> None:
        given = _command(command)
        if self._task is not None and self._answered_before(given) is None:
            self._admitted(given)

    @workflow.signal(
        name=names.TAKEOVER,
        description='{"action", "operator", "reason", "version"}: a person\'s command',
    )
    async def takeover_signal(self, command: RawValue = NOTHING, *_: RawValue) -> None:
        """The same as the update, for tools that can only signal; refusals stand in the status."""
        answer = await self._answer(command)
        if not (answer.applied or answer.pending):
            self._view.refuse("", names.TAKEOVER, answer.message)

    @workflow.signal(name=names.RECONCILE_NOW, description="Ask the outside now")
    def reconcile_now(self) -> None:
        """End the current wait."""
        self._wake()

    @workflow.signal(name=names.PROCEED, description="Go on with a task that is only ascertained")
    def proceed(self) -> None:
        """The task was submitted again while what an ended run had begun is found out."""
        self._only_ascertain, self._proceeds = False, True
        workflow.upsert_memo({names.MEMO_ONLY_ASCERTAINS: None})
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
            deadline=task.deadline if task else None,
            outcome=self._ending,
            steps=tuple(self._steps),
            undone=tuple(self._undone),
            undoable=() if task is None or self._ending else tuple(self._undoable(task)),
            open=self._view.open,
            refused_commands=tuple(self._view.refused),
            pending_commands=tuple(self._view.pending),
        )

    @workflow.query(name=names.TIMELINE, description="What happened, oldest first")
    def timeline(self) -> Timeline:
        """What happened, oldest first."""
        return Timeline(entries=tuple(self._view.entries))

    def _wake(self) -> None:
        if self._pursuit is not None:
            self._pursuit.wake()

    def _admitted(self, given: Command) -> Command:
        """The command for the effect that it means, or a ValueError as a sentence for its sender."""
        pursuit, task = self._pursuit, self._task
        if pursuit is None or task is None:
            msg = "the task has no open effect now, so there is nothing to decide"
            raise ValueError(msg)
        meant = pursuit.effect.effect_id
        if given.action is Action.UNDO:
            meant = self._to_take_back(task, given).effect_id
        if given.effect_id not in {None, meant}:
            msg = f"the open effect is {meant}, not {given.effect_id}"
            raise ValueError(msg)
        if (given.action is Action.AMEND) != (given.input is not None):
            msg = "amend, and nothing else, needs input: the whole new input of the effect"
            raise ValueError(msg)
        if given.input is not None:
            admit_input(task, pursuit.effect, given.input)
        # A command that waits its turn is for this effect, whatever the task has come to by then.
        return given.model_copy(update={"effect_id": meant})

    def _to_take_back(self, task: Task, command: Command) -> StepResult:
        """The settled step that an undo means; a ValueError if there is none, or more than one."""
        if self._ending is not None:
            msg = f"the task is {self._ending}, and its steps are taken back already or not at all"
            raise ValueError(msg)
        free = self._undoable(task)
        meant = [done for done in free if command.effect_id in {None, done.effect_id}]
        if len(meant) == 1:
            return meant[0]
        names = ", ".join(f"{done.step} ({done.effect_id})" for done in free) or "none"
        msg = f"name by effect_id one settled step that declares an undo and still has it: {names}"
        raise ValueError(msg)

    def _undoable(self, task: Task) -> list[StepResult]:
        busy = {*self._taking_back, *(done.step for done in self._undone)}
        able = [done for done in self._steps if undo_of(task, done) is not None]
        return [done for done in able if not {done.step, keys.undo_step(done.step)} & busy]

    async def _answer(self, command: object) -> CommandAnswer:
        try:
            given = _command(command)
            if self._task is None and workflow.patched(names.HEARS_FROM_THE_FIRST):
                # It came with the first words of this history, before what an earlier one gave over was read.
                await workflow.wait_condition(lambda: self._task is not None)
            return self._answered_before(given) or await self._decide(self._admitted(given))
        except ValueError as error:
            return CommandAnswer(applied=False, message=str(error))

    def _answered_before(self, given: Command) -> CommandAnswer | None:
        """What this very request was answered when it came first, whatever it would come to now."""
        return self._answered.get(given.request_id or "") or self._answered.get(_pending(given))

    async def _decide(self, command: Command) -> CommandAnswer:
        async with self._deciding:
            repeated = self._answered_before(command)
            if repeated is not None:
                return repeated
            if command.action is Action.UNDO:
                return await self._order_undo(command)
            pursuit = self._pursuit
            if pursuit is None or pursuit.effect.effect_id != command.effect_id:
                message = f"{command.action} refused: {command.effect_id} was closed meanwhile"
                return CommandAnswer(applied=False, message=message)
            answer = await pursuit.decide(decision_about(pursuit.effect, command))
            self._remember(pursuit.effect.step, command, answer)
            # If it was applied, the ledger says so.
            looks = answer.in_doubt and workflow.patched(names.LOOKS_AFTER_LOST_DECISION)
            if answer.applied or looks:
                pursuit.wake()
            for freed in answer.freed:
                await self._free(freed, command)
            return answer

    async def _free(self, freed: Freed, command: Command) -> None:
        """What has lost its only candidates by this decision does not exist: say so where it is decided."""
        denial = Command(
            action=Action.DENY,
            operator=command.operator,
            reason=f"by the same decision: its candidate was tied to {command.effect_id}",
            version=freed.version,
            effect_id=freed.effect_id,
            request_id=f"tied-{command.effect_id}",
        )
        told = denial.model_dump(mode="json", exclude_none=True)
        other = workflow.get_external_workflow_handle(freed.task_id)
        try:
            await other.signal(names.TAKEOVER, told)
        except FailureError as error:
            why = f"{freed.effect_id} of task {freed.task_id} could not be told: {error}"
            self._view.note("", "deny", why)

    async def _order_undo(self, command: Command) -> CommandAnswer:
        pursuit, task = self._pursuit, self._task
        if pursuit is None or task is None:
            return CommandAnswer(applied=False, message="undo refused: the task is over")
        try:
            done = self._to_take_back(task, command)
        except ValueError as error:
            return CommandAnswer(applied=False, message=f"undo refused: {error}")
        step = next(step for step in task.steps if step.name == done.step)
        taken = effect_of(task, step).model_copy(update={"effect_id": done.effect_id})
        answer = await pursuit.decide(decision_about(taken, command), here=True)
        self._remember(done.step, command, answer)
        if answer.applied:
            self._given_up = True
            self._taking_back.append(done.step)
            if workflow.patched(names.REMEMBERS_UNDO):
                workflow.upsert_memo(self._memo_of_persons())
            pursuit.wake()
        return answer

    def _remember(self, step: str, command: Command, answer: CommandAnswer) -> None:
        self._view.note(step, command.action.value, answer.message)
        if answer.pending:
            self._view.wait_for_second(step, command, answer)
        if not command.request_id:
            return
        if answer.applied:
            self._keep(command.request_id, answer)
        elif answer.pending and workflow.patched(names.KNOWS_WHO_WAITS):
            self._keep(_pending(command), answer)

    def _keep(self, request: str, answer: CommandAnswer) -> None:
        self._answered[request] = answer
        self._answered = dict([*self._answered.items()][-ANSWERS_KEPT:])


def _command(content: object) -> Command:
    """What somebody gave, or a ValueError whose text is one sentence for its sender."""
    try:
        return Command.model_validate(decoded(content))
    except ValidationError as error:
        raise ValueError(f"not a takeover command: {faults(error)}") from None


def _pending(command: Command) -> str:
    """Where an answer is kept that is no other person's, and of no other version."""
    return f"{command.request_id} {command.version} {command.operator}"


async def _nothing() -> None:
    """What an undo waits for before its turn."""
