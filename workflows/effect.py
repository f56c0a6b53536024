"""How a task pursues one effect: run an activity, obey its directive, until the effect is closed."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    TimeoutError as TimedOut,
    TimeoutType,
)

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts import directive, names
    from ascertain.contracts.command import CommandAnswer
    from ascertain.contracts.effect import State
    from ascertain.contracts.task import StepResult
    from ascertain.contracts.work import Answer, Decision, Work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from ascertain.contracts.directive import Directive, Unrecorded
    from ascertain.contracts.effect import Effect, Receipt

ResultT = TypeVar("ResultT")

# Longer than claim + call + the worker's tries to record, for inline work (calls of at most 5 s).
INLINE_TIMEOUT = timedelta(seconds=30)
# After this, nobody is taken to serve a task queue, or all who do are too busy to answer a person.
TAKEN_WITHIN = timedelta(seconds=15)
# So often is a command given again of which it is not known whether it was applied.
DECIDED_AGAIN = 2
FAILED_PAUSE = timedelta(seconds=1)
FAILED_PAUSE_MAX = timedelta(minutes=1)
# An activity that failed is never repeated by Temporal: what it did is ascertained first.
ONCE = RetryPolicy(maximum_attempts=1)
# How an activity's failure arrives: a local activity's own error comes bare, all else is wrapped.
FAILED = (ActivityError, ApplicationError)


class Pursuit:
    """One effect on its way to a final state.

    It decides nothing: every turn is an activity's directive. ``halt`` is asked where the effect
    provably does not exist, so that a cancelled task can stop there; ``withdraw``, whether it is closed then
    for whoever might come later. ``before_turn`` is let finish before the effect is touched. From the
    ``deadline`` on it is not begun. Where a person replaced the input, ``effect`` is the one with the new.
    """

    def __init__(
        self,
        effect: Effect,
        *,
        on_directive: Callable[[Effect, Directive], None],
        halt: Callable[[], bool],
        before_turn: Callable[[], Awaitable[None]],
        withdraw: Callable[[], bool],
        deadline: datetime | None = None,
    ) -> None:
        self.effect = effect
        self.route: directive.RunQueued | None = None
        self.woken = False
        self._on_directive = on_directive
        self._halt = halt
        self._before_turn = before_turn
        self._withdraw = withdraw
        self._deadline = deadline
        self._failures: dict[str, int] = {}
        self._turned_away = 0
        self._asked = False
        self._tried = False
        self._running: workflow.ActivityHandle[Any] | None = None

    async def run(self) -> StepResult:
        """Pursue the effect until it is closed.

        Raises:
            ApplicationError: The ledger holds other content under this id.
        """
        await self._before_turn()
        following = await (self._reconcile() if self._halt() else self._perform())
        while True:
            if isinstance(following, directive.Superseded):
                self.effect = _successor(self.effect, following)
            self._on_directive(self.effect, following)
            closed = self._closing(following)
            if closed is not None:
                return closed
            following = await self._obey(following)

    def _closing(self, following: Directive) -> StepResult | None:
        match following:
            case directive.Done(receipt=receipt):
                return self._closed(State.SETTLED, following, receipt=receipt)
            case directive.Refused(state=state):
                return self._closed(state, following)
            case directive.Conflicting(reason=reason):
                message = f"{self.effect.effect_id}: {reason}"
                raise ApplicationError(message, type="Conflict", non_retryable=True)
            # Not Held: a question that is asked by re-sending may be held too, and leaves it in doubt.
            case directive.RetryIn() if self._halt() and self._asked:
                return self._closed(State.CLEAR, following)
            case _:
                return None

    async def _obey(self, following: Directive) -> Directive:
        match following:
            case directive.RunQueued():
                if (
                    self.route is not None
                ):  # two deployments that send it to each other turn no wheel
                    await self.pause(FAILED_PAUSE)
                self.route = following
                return await (self._reconcile() if self._halt() else self._perform())
            case directive.Superseded():
                return await (self._reconcile() if self._halt() else self._perform())
            case directive.Held(delay=delay) | directive.RetryIn(delay=delay):
                await self.pause(delay)
                return await (self._reconcile() if self._halt() else self._perform())
            case directive.ReconcileIn(delay=delay, unrecorded=unrecorded):
                await self._wait(delay)
                # What only this history knows is recorded before anything that may take long, or end it.
                if unrecorded is None or not workflow.patched(names.RECORDS_FIRST):
                    await self._before_turn()
                return await self._reconcile(unrecorded)
            case directive.Quarantined(ask_again_in=delay):
                await self.pause(delay)
                return await self._reconcile()
            case directive.TakenOver(ask_again_in=delay):
                await self.pause(delay)
                return await self._reconcile()
            case directive.Done() | directive.Refused() | directive.Conflicting():
                msg = f"{following.type} ends the pursuit"
                raise ValueError(msg)
            case _:
                assert_never(following)

    def interrupt(self) -> None:
        """Ask queued work to stop where it is; what it had done by then is ascertained."""
        if self._running is not None:
            self._running.cancel()
        self.wake()

    def wake(self) -> None:
        """End the current pause, or the next one if the task is busy now."""
        self.woken = True

    async def pause(self, delay: timedelta | None) -> None:
        """Wait until the time is over or somebody wakes the task, and for what goes first."""
        await self._wait(delay)
        await self._before_turn()

    async def _wait(self, delay: timedelta | None) -> None:
        """None waits for somebody."""
        if delay is None or delay > timedelta(0):
            with contextlib.suppress(TimeoutError):
                await workflow.wait_condition(lambda: self.woken, timeout=delay)
        self.woken = False

    async def decide(self, decision: Decision, *, here: bool = False) -> CommandAnswer:
        """Have a person's command applied where this effect's adapter is, or ``here`` if it needs none.

        Where it is not known to be applied it is given again, which its request id makes safe.
        """
        route = None if here else self.route
        if not workflow.patched(names.DECIDES_ON_RECORD):
            return await self._decide_once(decision, route)
        told = await self._decide_once(decision, route)
        for _ in range(DECIDED_AGAIN):
            if not told.in_doubt:
                break
            await workflow.sleep(FAILED_PAUSE)
            again = await self._decide_once(decision, route)
            # Where nobody could look into the ledger, what came of the first try is in doubt as before.
            told = again if again.applied or again.pending or again.standing is not None else told
        return told

    async def _decide_once(
        self, decision: Decision, route: directive.RunQueued | None
    ) -> CommandAnswer:
        try:
            if route is None:
                return await _locally(names.DECIDE, decision, CommandAnswer)
            return await self._queued(names.DECIDE, decision, CommandAnswer, route)
        except FAILED as error:
            if route is not None and _never_began(error):
                return self._not_taken(decision, route)
            message = f"not known to be applied, look at the status: {_why(error)}"
            effect = decision.effect.effect_id
            return CommandAnswer(applied=False, message=message, in_doubt=True, effect_id=effect)

    def _not_taken(self, decision: Decision, route: directive.RunQueued) -> CommandAnswer:
        queue = route.task_queue
        message = (
            f"{decision.command.action} refused: no worker of task queue {queue} took the command within "
            f"{TAKEN_WITHIN.seconds} s, so nothing was applied; start one, or give it again later"
        )
        return CommandAnswer(applied=False, message=message, effect_id=decision.effect.effect_id)

    async def _perform(self) -> Directive:
        self._asked = False
        work = Work(
            effect=self.effect,
            first=not self._tried,
            turned_away=self._turned_away,
            deadline=self._deadline,
        )
        following = await self._turn(names.PERFORM, work)
        self._tried = not isinstance(following, directive.RunQueued)
        return following

    async def _reconcile(self, unrecorded: Unrecorded | None = None) -> Directive:
        work = Work(
            effect=self.effect,
            unrecorded=unrecorded,
            withdraw=self._withdraw(),
            turned_away=self._turned_away,
        )
        following = await self._turn(names.RECONCILE, work)
        # Asked before it was cancelled, nothing was closed for those who come later.
        told = work.withdraw or not self._withdraw()
        self._asked = told and not isinstance(following, directive.ReconcileIn)
        return following

    async def _turn(self, name: str, work: Work) -> Directive:
        following = await self._answer(name, work)
        turned_away = following.error_class == directive.UNSERVED
        self._turned_away = self._turned_away + 1 if turned_away else 0
        return following

    async def _answer(self, name: str, work: Work) -> Directive:
        try:
            answer = await self._worked(name, work)
        except FAILED as error:
            if self.route is not None and work.dead_queue is None and _never_began(error):
                dead = {"dead_queue": self.route.task_queue}
                return await self._answer(name, work.model_copy(update=dead))
            self._failures[name] = failures = self._failures.get(name, 0) + 1
            pause = min(FAILED_PAUSE * 2 ** min(failures - 1, 10), FAILED_PAUSE_MAX)
            return directive.ReconcileIn(
                delay=pause,
                reason=f"{name} ended without an answer: {_why(error)}",
                unrecorded=work.unrecorded,
            )
        self._failures.pop(name, None)
        return answer.directive

    async def _worked(self, name: str, work: Work) -> Answer:
        if self.route is None or work.dead_queue is not None:
            return await _locally(name, work, Answer)
        return await self._queued(name, work, Answer, self.route)

    async def _queued(
        self,
        name: str,
        argument: Work | Decision,
        result: type[ResultT],
        route: directive.RunQueued,
    ) -> ResultT:
        deciding = name == names.DECIDE
        handle: workflow.ActivityHandle[ResultT] = workflow.start_activity(
            name,
            argument,
            result_type=result,
            task_queue=route.task_queue,
            # Work waits its turn in a long queue; a question and a command want to know that nobody is there.
            schedule_to_start_timeout=None if name == names.PERFORM else TAKEN_WITHIN,
            start_to_close_timeout=INLINE_TIMEOUT if deciding else route.start_to_close,
            heartbeat_timeout=None if deciding else route.heartbeat,
            retry_policy=ONCE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=f"{name} {self.effect.step} {self.effect.effect_id}",
            priority=Priority(fairness_key=self.effect.partition),
        )
        if name == names.PERFORM:
            self._running = handle
        try:
            return await handle
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # the worker lets go of the run
                raise
            # Its end and our wish to stop it came in one moment: what it did is not known here.
            raise ApplicationError("it was stopped as it ended", type="Interrupted") from None
        finally:
            if self._running is handle:
                self._running = None

    def _closed(
        self, state: State, following: Directive, *, receipt: Receipt | None = None
    ) -> StepResult:
        return StepResult(
            step=self.effect.step,
            effect_id=self.effect.effect_id,
            state=state,
            receipt=receipt,
            reason=following.reason,
        )


async def _locally(name: str, argument: Work | Decision, result: type[ResultT]) -> ResultT:
    inline: ResultT = await workflow.execute_local_activity(
        name,
        argument,
        result_type=result,
        start_to_close_timeout=INLINE_TIMEOUT,
        retry_policy=ONCE,
    )
    return inline


def _successor(effect: Effect, following: directive.Superseded) -> Effect:
    changes = {
        "effect_id": following.by,
        "revision": following.revision,
        "input": following.input,
    }
    return effect.model_copy(update=changes)


def _never_began(error: ActivityError | ApplicationError) -> bool:
    """Whether nobody took the activity from its task queue, so that it did nothing."""
    cause = error.cause
    return isinstance(cause, TimedOut) and cause.type is TimeoutType.SCHEDULE_TO_START


def _why(error: ActivityError | ApplicationError) -> str:
    """The cause's own words: the ActivityError itself only says that an activity failed."""
    cause = error.cause
    return f"{type(cause).__name__}: {cause}" if cause is not None else str(error)
