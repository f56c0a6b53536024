"""The course of a task: its steps in order, their undo in reverse order after a refusal."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts import names
    from ascertain.contracts.continuation import Amendment, Progress
    from ascertain.contracts.effect import State
    from ascertain.contracts.task import TaskOutcome
    from ascertain.contracts.work import Known

from ascertain import keys
from workflows.content import as_amended, effect_of, given_on, undo_of
from workflows.effect import Pursuit

if TYPE_CHECKING:
    from collections.abc import Callable

    from ascertain.contracts.directive import Directive, RunQueued
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.task import StepResult, Task
    from workflows.view import View

# A look into the ledger is safe to repeat.
LEDGER_TIMEOUT = timedelta(seconds=10)
AGAIN = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
LONGEST_HELD = timedelta(seconds=2)

OUTCOME = {
    State.REFUSED: TaskOutcome.REFUSED,
    State.SUPERSEDED: TaskOutcome.REFUSED,
    State.ABANDONED: TaskOutcome.ABANDONED,
    State.CLEAR: TaskOutcome.CANCELLED,
}


class Course:
    """How far a task is, and what of it is still to be done.

    Commands and cancellation only note here what they want; it is heeded where the next effect, or its next
    turn, would begin. ``task`` is None until the workflow has read it; ``pursuit`` is the open effect, and
    ``on_directive`` is told of each of its turns.
    """

    def __init__(self, view: View, on_directive: Callable[[Effect, Directive], None]) -> None:
        self.task: Task | None = None
        self.pursuit: Pursuit | None = None
        self.steps: list[StepResult] = []
        self.undone: list[StepResult] = []
        self.ending: TaskOutcome | None = None
        self.cancelling = False
        self.only_ascertain = False
        self.given_up = False
        self.taking_back: list[str] = []
        self.begun_at = workflow.info().workflow_start_time
        self.amended: dict[str, Amendment] = {}
        self._view = view
        self._on_directive = on_directive
        self._route: RunQueued | None = None

    def begin(self, task: Task, progress: Progress) -> None:
        """Have the task, and what the history before this one and its memo gave over."""
        self.task, before = task, given_on()
        self.steps, self.undone = list(progress.steps), list(progress.undone)
        self.ending, self._route = progress.ending, progress.route
        self.only_ascertain = progress.only_ascertain
        self.cancelling = self.cancelling or progress.cancelling
        ordered = (*before.taking_back, *keys.ordered_back(progress))
        self.taking_back = [*dict.fromkeys(ordered)]
        self.given_up = progress.given_up or bool(ordered)
        self.begun_at = progress.begun_at or before.begun_at or self.begun_at
        self.amended = {**before.amended, **progress.amended}

    def progress(self, task: Task) -> Progress:
        """What a new history of the same task is given over, in the middle of an effect."""
        owed = self._owed(task)
        route = self.pursuit.route if self.pursuit is not None else None
        return Progress(
            steps=tuple(self.steps),
            undone=tuple(self.undone),
            ending=self.ending,
            route=None if owed else route,
            only_ascertain=self.only_ascertain,
            taking_back=tuple(owed),
            given_up=self.given_up,
            amended=self.amended,
            begun_at=self.begun_at,
            cancelling=self.cancelling,
        )

    async def run(self, task: Task) -> TaskOutcome:
        """Bring every step's effect about, or take back what was done."""
        if self.ending is None:
            ending = await self._forward(task)
            if not workflow.all_handlers_finished() and workflow.patched(names.HEARS_TO_THE_LAST):
                # An order to take a step back may be on record already.
                await workflow.wait_condition(workflow.all_handlers_finished)
                gives_up = self.given_up and ending is TaskOutcome.DONE
                ending = TaskOutcome.ABANDONED if gives_up else ending
            self.ending = ending
        await self._take_back(task)
        rest = await self._rest(task)
        await self._ask_for(task, rest)
        takes_back = _takes_back(task, self.ending)
        if takes_back or rest:
            await self._back(task, None if takes_back else rest)
        owes = any(done.state is State.CLEAR for done in self.undone)
        if owes and (takes_back or rest or workflow.patched(names.REMEMBERS_UNDO)):
            self.ending = TaskOutcome.CANCELLED
        return self.ending

    def begin_again(self) -> None:
        """What is settled stands, and is answered from the ledger where it is met again."""
        if self.taking_back and not workflow.patched(names.REMEMBERS_UNDO):
            # As a history of before went on: what it had come back to was not taken back once more.
            over = {done.step for done in self.undone}
            self.taking_back = [
                step for step in self.taking_back if keys.undo_step(step) not in over
            ]
        self.steps = [done for done in self.steps if done.state is State.SETTLED]
        self.undone = []
        self.ending = None

    def amend(self, effect: Effect) -> None:
        """Remember a new input. A ledger that is restored forgets it; a further run knows the memo alone."""
        self.amended[effect.step] = Amendment(revision=effect.revision, input=effect.input)
        if workflow.patched(names.REMEMBERS_AMENDMENTS):
            workflow.upsert_memo(self.memo())

    def order_back(self, step: str) -> None:
        """Have a settled step taken back; nothing else is begun any more, in no further run either."""
        self.given_up = True
        self.taking_back.append(step)
        if workflow.patched(names.REMEMBERS_UNDO):
            workflow.upsert_memo(self.memo())

    def recall(self, step: str) -> None:
        """Heed an order that the ledger remembers, where this history may have lost it to a reset."""
        if step not in self.taking_back:
            self.order_back(step)

    def memo(self) -> dict[str, object]:
        """What persons said that every further run of the task must know."""
        told = {step: by.model_dump(mode="json") for step, by in self.amended.items()}
        return {
            **({names.MEMO_AMENDED: told} if told else {}),
            **({names.MEMO_GIVEN_UP: self.taking_back} if self.taking_back else {}),
        }

    def wake(self) -> None:
        """End the current wait."""
        if self.pursuit is not None:
            self.pursuit.wake()

    def undoable(self, task: Task) -> list[StepResult]:
        """The settled steps that a person can still have taken back; none once the task has an outcome."""
        if self.ending is not None:
            return []
        busy = {*self.taking_back, *(done.step for done in self.undone)}
        able = [done for done in self.steps if undo_of(task, done) is not None]
        return [done for done in able if not {done.step, keys.undo_step(done.step)} & busy]

    def ordered_back(self) -> list[StepResult]:
        """The settled steps that persons ordered to be taken back."""
        return [done for done in self.steps if done.step in self.taking_back]

    async def _forward(self, task: Task) -> TaskOutcome:
        known = {done.step for done in self.steps}
        for step in [step for step in task.steps if step.name not in known]:
            if self._gives_up and not workflow.patched(names.WITHDRAWS):
                return TaskOutcome.CANCELLED if self.cancelling else TaskOutcome.ABANDONED
            begins = not self._gives_up
            done = await self._pursue(task, effect_of(task, step))
            if begins or done.state is not State.ABANDONED:
                self._add(task, done)
            if done.state is State.ABANDONED and self.cancelling:
                return TaskOutcome.CANCELLED
            if done.state is not State.SETTLED:
                return self._outcome(done.state)
        return TaskOutcome.ABANDONED if self.given_up else TaskOutcome.DONE

    def _add(self, task: Task, done: StepResult) -> None:
        order = [step.name for step in task.steps]
        self.steps = sorted([*self.steps, done], key=lambda result: order.index(result.step))

    def _outcome(self, state: State) -> TaskOutcome:
        stopped = self.cancelling or self.only_ascertain
        if state is State.CLEAR and self.given_up and not stopped:
            return TaskOutcome.ABANDONED
        return OUTCOME[state]

    async def _rest(self, task: Task) -> frozenset[str]:
        """The steps that the ledger knows of, if others may have begun what this run did not come to.

        An earlier run may, or whoever wrote into the ledger what another system had begun.
        """
        info = workflow.info()
        # A run that was reset starts when its first one did, and is not that one.
        first = (
            self.begun_at == info.workflow_start_time and info.run_id == info.first_execution_run_id
        )
        came_to_all = first and len(self.steps) == len(task.steps)
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
            if step.name in rest and step.name not in {done.step for done in self.steps}:
                try:
                    self._add(task, await self._pursue(task, effect_of(task, step)))
                except ApplicationError as error:
                    # What stands under its id is no effect of this task.
                    self._view.note(step.name, "conflict", error.message)

    async def _back(self, task: Task, known: frozenset[str] | None) -> None:
        """Take back what is settled, or only those whose undo is known to be begun."""
        settled = [done for done in self.steps if done.state is State.SETTLED]
        undoing = [undo for done in reversed(settled) if (undo := undo_of(task, done)) is not None]
        for effect in undoing:
            wanted = known is None or effect.step in known
            if wanted and effect.step not in {done.step for done in self.undone}:
                self.undone.append(await self._pursue(task, effect))

    async def _take_back(self, task: Task) -> None:
        """What persons ordered to be taken back, before anything else is touched."""
        while owed := self._owed(task):
            self.undone.append(await self._pursue(task, next(iter(owed.values()))))

    def _owed(self, task: Task) -> dict[str, Effect]:
        """What was ordered to be taken back and is not yet, by step; of a step, once it is known to exist."""
        settled = {done.step: done for done in self.steps if done.state is State.SETTLED}
        undone = {done.step for done in self.undone}
        undoing = {
            step: undo_of(task, settled[step]) for step in self.taking_back if step in settled
        }
        return {
            step: undo
            for step, undo in undoing.items()
            if undo is not None and undo.step not in undone
        }

    async def _pursue(self, task: Task, effect: Effect) -> StepResult:
        undo = effect.undoes is not None
        effect = as_amended(effect, self.amended)
        pursuit = Pursuit(
            effect.model_copy(update={"begun_at": self.begun_at}),
            on_directive=self._on_directive,
            halt=lambda: self._halts(undo=undo),
            withdraw=lambda: self._gives_up and not undo,
            before_turn=_nothing if undo else lambda: self._take_back(task),
            deadline=None if undo else task.deadline,
        )
        pursuit.route, self._route = self._route, None
        self._view.begin(effect)
        waiting, self.pursuit = self.pursuit, pursuit
        try:
            return await pursuit.run()
        finally:
            self.pursuit = waiting
            if waiting is not None:
                self._view.begin(waiting.effect)

    def _halts(self, *, undo: bool) -> bool:
        """Whether nothing new is to be done; what was begun is ascertained all the same."""
        ends = self._gives_up or self.ending is not None
        return self.only_ascertain or (ends and not undo)

    @property
    def _gives_up(self) -> bool:
        """Whether what was not begun is not to be begun by anybody."""
        return self.cancelling or self.given_up


def _takes_back(task: Task, outcome: TaskOutcome) -> bool:
    if outcome is TaskOutcome.CANCELLED:
        return task.undo_on_cancel
    return outcome is TaskOutcome.REFUSED


async def _nothing() -> None:
    """What an undo waits for before its turn."""
