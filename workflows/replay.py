"""The workflow of a replay: a dry run, a canary, then batch after batch, each only if the last went well."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    RetryState,
    is_cancelled_exception,
)

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts import names
    from ascertain.contracts.replay import (
        ACTED,
        ASKED,
        ASKED_FOR_INCIDENT,
        ERRORS,
        Act,
        Ask,
        Phase,
        ReplayRequest,
        ReplayStatus,
        Result,
        Said,
        Say,
        Select,
        Selected,
        Tally,
    )

from workflows.answered import Answers, hear
from workflows.argument import NOTHING, applied, argument, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from ascertain.contracts.replay import Group

ResultT = TypeVar("ResultT")

# What one asking activity takes on, and how long one turn may take whatever its pace.
CHUNK = 200
LONGEST = timedelta(hours=6)
HEARTBEAT = timedelta(seconds=10)
PERSISTENT = RetryPolicy(
    initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=20)
)


@workflow.defn(name=names.REPLAY_WORKFLOW)
class ReplayWorkflow:
    """Its id names the replay in the ledger, where every item stands; here is only how far it is."""

    @workflow.init
    def __init__(self, content: RawValue = NOTHING, *_: RawValue) -> None:
        # What is said before the first line of ``run`` must already meet what an earlier run has done.
        self._refusal: ApplicationError | None = None
        try:
            self._request = argument(content, ReplayRequest)
        except ApplicationError as error:
            self._request = ReplayRequest(operator="nobody", reason="not begun")
            self._refusal = error
        self._progress = self._request.progress
        self._answers = Answers(self._progress.answered)
        self._turn: workflow.ActivityHandle[Any] | None = None
        self._broken_off = False

    @workflow.run
    async def run(self, content: RawValue = NOTHING, *_: RawValue) -> Tally:
        """Replay what the request selects; ends when every item has come to something.

        Raises:
            ApplicationError: ``InvalidRequest``; nothing was done.
        """
        del content  # read already
        if self._refusal is not None:
            raise self._refusal
        if self._progress.phase in {Phase.SELECTING, Phase.ASKING}:
            await self._dry_run()
        while await self._batch():
            self._continue_if_long()
        self._move(phase=Phase.DONE)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self._progress.tally

    async def _dry_run(self) -> None:
        """Ask for every item before anything is told to go on."""
        select = Select(replay_id=self._id, selection=self._request.selection)
        selected = await self._execute(names.REPLAY_SELECT, select, Selected)
        self._move(phase=Phase.ASKING, tally=selected.tally)
        for group in selected.groups:
            await self._ask(group)
        parent = workflow.info().parent
        paused = self._progress.paused
        if paused is None and not self._request.go_on and (self._waiting() or parent is not None):
            paused = ASKED if parent is None else ASKED_FOR_INCIDENT
        self._move(phase=Phase.CANARY, paused=paused)
        if parent is not None:
            incident = workflow.get_external_workflow_handle(parent.workflow_id)
            await incident.signal(names.REPLAY_ASKED, self._progress.tally)
        await workflow.wait_condition(lambda: self._progress.paused is None)

    async def _ask(self, group: Group) -> None:
        pace = self._request.pace
        for _ in range(0, group.items, CHUNK):
            rate = pace.ask_rate or pace.rate
            chunk = Ask(replay_id=self._id, kind=group.kind, rate=rate, limit=CHUNK)
            tally = await self._execute(names.REPLAY_ASK, chunk, Tally, group.queue)
            self._move(tally=tally)
            self._continue_if_long()

    async def _batch(self) -> bool:
        """One batch; whether there is more to do. The last, empty one looks after what came late."""
        if not self._waiting() and not self._progress.tally.of(frozenset({Result.OPEN})):
            return False
        last = not self._waiting()
        pace = self._request.pace
        number = self._progress.batch
        act = Act(
            replay_id=self._id,
            operator=self._request.operator,
            reason=self._request.reason,
            batch=number,
            limit=pace.batch if number else pace.canary,
            rate=pace.rate,
            patience=pace.patience,
            # Only an incident has a replay for a child, and only after a person approved that step.
            through_gate=workflow.info().parent is not None,
        )
        tally = await self._execute(names.REPLAY_ACT, act, Tally)
        self._move(phase=Phase.BATCHES, batch=number + 1, tally=tally)
        if self._waiting():
            self._stop_if_too_many_errors()
        return not last

    def _stop_if_too_many_errors(self) -> None:
        tally, (errors_before, acted_before) = self._progress.tally, self._progress.forgiven
        errors, acted = tally.of(ERRORS) - errors_before, tally.of(ACTED) - acted_before
        if acted > 0 and errors / acted > self._request.pace.stop_share:
            share = f"{errors} of {acted} items came to an error"
            limit = f"{self._request.pace.stop_share:.0%}"
            self._move(paused=f"{share}, which is more than {limit}; `report` lists them")

    def _waiting(self) -> int:
        return self._progress.tally.of(frozenset({Result.WAITING}))

    async def _execute(
        self, name: str, given: Select | Ask | Act, result: type[ResultT], queue: str | None = None
    ) -> ResultT:
        """One turn; a pause breaks it off, and after it the same turn finds what is left of it."""
        while True:
            await workflow.wait_condition(lambda: self._progress.paused is None)
            turn: workflow.ActivityHandle[ResultT] = workflow.start_activity(
                name,
                given,
                result_type=result,
                task_queue=queue,
                start_to_close_timeout=LONGEST,
                heartbeat_timeout=HEARTBEAT,
                retry_policy=PERSISTENT,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=f"{name} {self._progress.batch if isinstance(given, Act) else ''}".strip(),
            )
            self._turn, self._broken_off = turn, False
            try:
                return await turn
            except ActivityError as error:
                # Not whether it is paused now: it may have been resumed before the turn had ended.
                if not (self._broken_off and _was_given_up(error)):
                    raise
            finally:
                self._turn = None

    def _continue_if_long(self) -> None:
        if workflow.info().is_continue_as_new_suggested():
            progress = self._progress.model_copy(update={"answered": self._answers.kept})
            given = self._request.model_copy(update={"progress": progress})
            workflow.continue_as_new(given)

    @property
    def _id(self) -> str:
        return workflow.info().workflow_id

    def _move(self, **changes: object) -> None:
        self._progress = self._progress.model_copy(update=changes)

    @workflow.update(name=names.PAUSE, description="Stop after what was told; nothing new is told")
    def pause(self, word: RawValue = NOTHING) -> Said:
        """Pause; what was told goes on by itself. Fails if it was not applied."""
        return applied(names.PAUSE, self._hear(names.PAUSE, said(word, Say), self._pause))

    @pause.validator
    def _pause_is_said(self, word: RawValue = NOTHING) -> None:
        said(word, Say)

    @workflow.signal(name=names.PAUSE, description='{"operator", "reason"}: tell nothing new')
    def pause_signal(self, word: RawValue = NOTHING) -> None:
        """The same as the update, for tools that can only signal."""
        try:
            self._hear(names.PAUSE, said(word, Say), self._pause)
        except ValueError as error:
            workflow.logger.warning("a pause was refused: %s", error)

    @workflow.update(
        name=names.RESUME, description="Go on, also after the dry run or too many errors"
    )
    def resume(self, word: RawValue = NOTHING) -> Said:
        """Go on. Fails if it was not applied."""
        return applied(names.RESUME, self._hear(names.RESUME, said(word, Say), self._resume))

    @resume.validator
    def _resume_is_said(self, word: RawValue = NOTHING) -> None:
        said(word, Say)

    @workflow.signal(name=names.RESUME, description='{"operator", "reason"}: go on')
    def resume_signal(self, word: RawValue = NOTHING) -> None:
        """The same as the update, for tools that can only signal."""
        try:
            self._hear(names.RESUME, said(word, Say), self._resume)
        except ValueError as error:
            workflow.logger.warning("a resume was refused: %s", error)

    @workflow.query(name=names.STATUS, description="How far the replay is")
    def status(self) -> ReplayStatus:
        """How far the replay is."""
        parent = workflow.info().parent
        return ReplayStatus(
            replay_id=self._id,
            phase=self._progress.phase,
            paused=self._progress.paused,
            incident=parent.workflow_id if parent is not None else None,
            operator=self._request.operator,
            reason=self._request.reason,
            selection=self._request.selection,
            pace=self._request.pace,
            tally=self._progress.tally,
        )

    def _hear(self, what: str, word: Say, apply: Callable[[Say], Said]) -> Said:
        """Earlier releases took any word under a used id for a repeat: what they kept is believed."""
        kept = self._answers.before(word.request_id)
        if word.request_id and (kept is not None or not workflow.patched(names.TELLS_WORDS_APART)):
            what = ""
        return hear(self._answers, what, word, apply)

    def _pause(self, word: Say) -> Said:
        if self._progress.phase is Phase.DONE:
            return Said(applied=False, message="the replay is done")
        if self._progress.paused is not None:
            return Said(applied=False, message=f"paused already: {self._progress.paused}")
        self._move(paused=f"{word.operator}: {word.reason}")
        if self._turn is not None:
            self._broken_off = True
            self._turn.cancel()
        message = "paused: within seconds nothing new is told; what was told goes on by itself"
        return Said(applied=True, message=message)

    def _resume(self, word: Say) -> Said:
        if self._progress.paused is None:
            return Said(applied=False, message="it is not paused")
        tally = self._progress.tally
        self._move(paused=None, forgiven=(tally.of(ERRORS), tally.of(ACTED)))
        return Said(applied=True, message=f"resumed by {word.operator}: {word.reason}")


def _was_given_up(error: ActivityError) -> bool:
    """Whether a turn ended as one that was broken off: its worker may be dead, and cannot say so."""
    if is_cancelled_exception(error):
        return True
    lost = error.retry_state is RetryState.CANCEL_REQUESTED
    return lost and workflow.patched(names.OUTLIVES_A_LOST_TURN)
