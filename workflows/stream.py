"""The workflow of a stream: many small tasks, a chunk at a time, as long as they are smooth.

It never looks into a chunk. What does not settle at once leaves it for a workflow of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts import names
    from ascertain.contracts.replay import Said, Say
    from ascertain.contracts.stream import (
        NAMED_MAX,
        Carried,
        Numbered,
        StreamOrder,
        StreamProgress,
    )

from workflows.answered import Answers, hear
from workflows.argument import NOTHING, applied, argument, decoded, refusal, said

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

# Longer than a chunk's calls and the worker's tries to record.
CARRY_TIMEOUT = timedelta(minutes=2)
# A carry is safe to repeat: what it had begun stands in the ledger.
AGAIN = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
# One that failed has its turn again: what it had not begun must keep to the rate.
ONCE = RetryPolicy(maximum_attempts=1)
CARRY_HEARTBEAT = timedelta(seconds=10)
# One that nobody takes for so long would begin with those that have their turns after it.
CARRY_TAKEN = timedelta(seconds=5)
HELD_PAUSE = timedelta(seconds=5)
# A server may round timers up by a second. What is later than that, or was paused, is not caught up.
CAUGHT_UP = timedelta(seconds=1)
NO_WAIT = timedelta(0)


@workflow.defn(name=names.STREAM_WORKFLOW)
class StreamWorkflow:
    """One stream is one workflow. It ends when it is closed and all that it was fed is done."""

    @workflow.init
    def __init__(self, content: RawValue = NOTHING, *_: RawValue) -> None:
        # What is said before the first line of ``run`` must already meet what an earlier run has done.
        self._refusal: ApplicationError | None = None
        try:
            order = argument(content, StreamOrder)
        except ApplicationError as error:
            order, self._refusal = StreamOrder(), error
        self._order = order
        begun_at = order.progress.begun_at or workflow.info().workflow_start_time
        self._progress = order.progress.model_copy(update={"begun_at": begun_at})
        self._answers = Answers(order.progress.answered)
        self._done = set(order.progress.done_beyond)
        self._carrying: set[int] = set()
        self._held: dict[int, str] = {}
        self._free_at = order.progress.free_at or workflow.now()
        self._beginning = asyncio.Lock()
        self._leaving = False

    @workflow.run
    async def run(self, content: RawValue = NOTHING, *_: RawValue) -> StreamProgress:
        """Carry what is fed until somebody closes the stream.

        Args:
            content: A ``StreamOrder`` as JSON: how fast; and what an earlier run has done.

        Raises:
            ApplicationError: ``InvalidRequest``; nothing was done.
        """
        del content  # read already
        if self._refusal is not None:
            raise self._refusal
        info = workflow.info
        await workflow.wait_condition(
            lambda: self._progress.closed or info().is_continue_as_new_suggested()
        )
        self._leaving = True
        await workflow.wait_condition(workflow.all_handlers_finished)
        if not self._progress.closed:
            further = self._order.model_copy(update={"progress": self.progress()})
            workflow.continue_as_new(further)
        return self.progress()

    @workflow.update(
        name=names.FEED, description="A numbered chunk of tasks; answered when it is done"
    )
    async def feed(
        self, number: RawValue = NOTHING, count: RawValue = NOTHING, chunk: RawValue = NOTHING
    ) -> None:
        """Carry one chunk. The same number again is answered without doing anything twice.

        Args:
            number: From 0, without gaps.
            count: How many tasks it holds, for the rate.
            chunk: A ``Chunk``; what is in it is the activity's business.

        Raises:
            ApplicationError: ``InvalidRequest``: the chunk is none; nothing of it was done.
        """
        numbered = _numbered(number, count)
        await self._feed(numbered.number, numbered.count, chunk)

    async def _feed(self, number: int, count: int, chunk: RawValue) -> None:
        while number in self._carrying:  # of several that wait, one goes first
            await workflow.wait_condition(lambda: number not in self._carrying)
        if self._is_done(number):
            return
        self._carrying.add(number)
        try:
            self._note(number, await self._carry(number, count, chunk))
        finally:
            self._carrying.discard(number)

    @feed.validator
    def _feed_is_possible(
        self, number: RawValue = NOTHING, count: RawValue = NOTHING, chunk: RawValue = NOTHING
    ) -> None:
        del chunk
        numbered = _numbered(number, count)
        if self._refusal is not None:
            raise self._refusal
        most = workflow.memo_value(names.MEMO_CHUNK, default=None, type_hint=int)
        if most is not None and numbered.count > most:
            raise refusal(
                f"a chunk of this stream holds {most} tasks at most, not {numbered.count}"
            )
        if self._is_done(numbered.number):
            return
        if self._moves:
            raise _moving()
        if self._leaving:
            raise ApplicationError("the stream is closed", type="Closed")

    @workflow.update(name=names.PAUSE, description="Begin no further chunk")
    def pause(self, word: RawValue = NOTHING) -> Said:
        """Begin no further chunk; what is under way is finished. Fails if it was not applied."""
        return applied(names.PAUSE, hear(self._answers, names.PAUSE, said(word, Say), self._pause))

    @pause.validator
    def _pause_is_said(self, word: RawValue = NOTHING) -> None:
        said(word, Say)

    @workflow.signal(name=names.PAUSE, description='{"operator", "reason"}: begin no further chunk')
    def pause_signal(self, word: RawValue = NOTHING) -> None:
        """The same as the update, for tools that can only signal."""
        self._overhear(names.PAUSE, word, self._pause)

    @workflow.update(name=names.RESUME, description="Go on")
    def resume(self, word: RawValue = NOTHING) -> Said:
        """Go on. Fails if it was not applied."""
        return applied(
            names.RESUME, hear(self._answers, names.RESUME, said(word, Say), self._resume)
        )

    @resume.validator
    def _resume_is_said(self, word: RawValue = NOTHING) -> None:
        said(word, Say)

    @workflow.signal(name=names.RESUME, description='{"operator", "reason"}: go on')
    def resume_signal(self, word: RawValue = NOTHING) -> None:
        """The same as the update, for tools that can only signal."""
        self._overhear(names.RESUME, word, self._resume)

    @workflow.update(name=names.CLOSE, description="Nothing more comes")
    def close(self, word: RawValue = NOTHING) -> Said:
        """Nothing more comes; what was fed is done first. Fails if it was not applied."""
        return applied(names.CLOSE, hear(self._answers, names.CLOSE, said(word, Say), self._close))

    @close.validator
    def _close_is_said(self, word: RawValue = NOTHING) -> None:
        said(word, Say)

    @workflow.signal(name=names.CLOSE, description='{"operator", "reason"}: nothing more comes')
    def close_signal(self, word: RawValue = NOTHING) -> None:
        """The same as the update, also for a feeder that has come to its end."""
        self._overhear(names.CLOSE, word, self._close)

    @workflow.query(name=names.STATUS, description="How far the stream is")
    def progress(self) -> StreamProgress:
        """How far the stream is."""
        held = tuple(sorted(set(self._held.values())))
        beyond = tuple(sorted(self._done))
        rated = self._order.per_second is not None
        told = {"done_beyond": beyond, "held": held, "answered": self._answers.kept}
        free_at = {"free_at": self._free_at if rated else None}
        return self._progress.model_copy(update=told | free_at)

    def _overhear(self, what: str, word: RawValue, apply: Callable[[Say | None], Said]) -> None:
        """Earlier releases, and tools, say anything beside the word itself, and it counts all the same."""
        try:
            told = said(word, Say)
        except ValueError:
            apply(None)
        else:
            hear(self._answers, what, told, apply)

    def _pause(self, word: Say | None) -> Said:
        if self._progress.paused:
            return Said(
                applied=False, message=f"paused already: {self._progress.said or 'nobody says'}"
            )
        self._move(paused=True, said=_by(word))
        return Said(applied=True, message="paused: what is under way is finished")

    def _resume(self, word: Say | None) -> Said:
        if not self._progress.paused:
            return Said(applied=False, message="it is not paused")
        self._move(paused=False, said=_by(word))
        return Said(applied=True, message=f"resumed by {_by(word)}")

    def _close(self, word: Say | None) -> Said:
        if self._progress.closed:
            return Said(applied=False, message="it is closed already")
        # A feeder that has come to its end says nothing of its own; what a person said last stands.
        self._move(closed=True, said=_by(word) or self._progress.said)
        return Said(applied=True, message="closed: what was fed is done first")

    def _move(self, **changes: object) -> None:
        self._progress = self._progress.model_copy(update=changes)

    async def _carry(self, number: int, count: int, chunk: RawValue) -> Carried:
        rate = self._order.per_second
        if rate is not None and not workflow.patched(names.KEEPS_RATE):
            begins = max(self._free_at, workflow.now())
            self._free_at = begins + _lasts(count, rate)
            await workflow.sleep(begins - workflow.now())
            rate = None  # as a history of before went on
        while True:
            begun_at = await self._turn(count, rate)
            self._held.pop(number, None)
            carried = await self._carry_once(chunk, rate)
            if carried is None:
                await self._rest(HELD_PAUSE)
                continue
            if carried.held is None:
                return carried
            if not carried.tally.begun:
                self._give_back(begun_at, count, rate)
            self._held[number] = carried.held
            await self._rest(max(carried.held_for or HELD_PAUSE, HELD_PAUSE))

    async def _turn(self, count: int, rate: float | None) -> datetime:
        """Wait while the stream is paused, and until the rate lets another chunk begin; when that was.

        Raises:
            ApplicationError: ``Moving``: the chunk is fed again to the next history.
        """
        if rate is None:
            gives_way = self._progress.paused and workflow.patched(names.KEEPS_RATE)
            await workflow.wait_condition(
                lambda: not self._progress.paused or (gives_way and self._moves)
            )
            if gives_way and self._moves:
                raise _moving()
            return workflow.now()
        async with self._beginning:
            while (paused := self._progress.paused) or workflow.now() < self._free_at:
                await workflow.wait_condition(lambda: self._moves or not self._progress.paused)
                if paused:
                    self._free_at = max(self._free_at, workflow.now())
                await self._freed()
                if self._moves:
                    raise _moving()
            late = workflow.now() - self._free_at
            begins = self._free_at if late <= CAUGHT_UP else workflow.now()
            self._free_at = begins + _lasts(count, rate)
        return begins

    async def _freed(self) -> None:
        """Wait for the rate's next free time, or until that is moved up, or the stream moves."""
        left = max(self._free_at - workflow.now(), NO_WAIT)
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self._moves or workflow.now() >= self._free_at, timeout=left
            )

    def _give_back(self, begun_at: datetime, count: int, rate: float | None) -> None:
        """Let the next chunk have the time of one that was held as a whole, unless another had it since."""
        if rate is not None and self._free_at == begun_at + _lasts(count, rate):
            self._free_at = begun_at

    async def _carry_once(self, chunk: RawValue, rate: float | None) -> Carried | None:
        """Carry it once; None if that failed, so that it has its turn again."""
        begun_at = self._progress.begun_at
        try:
            if rate is None:
                return await _locally(chunk, begun_at)
            # A local one would keep the other chunks' turns waiting until its calls have ended.
            carried: Carried = await workflow.execute_activity(
                names.CARRY,
                args=[chunk, begun_at],
                result_type=Carried,
                schedule_to_start_timeout=CARRY_TAKEN,
                start_to_close_timeout=CARRY_TIMEOUT,
                heartbeat_timeout=CARRY_HEARTBEAT,
                retry_policy=ONCE,
            )
        except ActivityError as error:
            if isinstance(error.cause, ApplicationError) and error.cause.non_retryable:
                raise refusal(error.cause.message) from None
            if rate is None:
                raise
            return None
        return carried

    async def _rest(self, pause: timedelta) -> None:
        """Wait before a held chunk is carried again; a gate may be closed for longer than a history can be.

        Raises:
            ApplicationError: ``Moving``: the chunk is fed again to the next history.
        """
        if not workflow.patched(names.GIVES_WAY):
            await workflow.sleep(pause)
            return
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(lambda: self._moves, timeout=pause)
        if self._moves:
            raise _moving()

    @property
    def _moves(self) -> bool:
        """Whether it goes on in a new history."""
        return self._leaving and not self._progress.closed

    def _note(self, number: int, carried: Carried) -> None:
        self._held.pop(number, None)
        self._done.add(number)
        below = self._progress.done_below
        while below in self._done:
            self._done.remove(below)
            below += 1
        told = self._progress
        self._progress = told.model_copy(
            update={
                "tally": told.tally.plus(carried.tally),
                "done_below": below,
                "handed_over": (told.handed_over + carried.handed_over)[:NAMED_MAX],
                "conflicting": (told.conflicting + carried.conflicting)[:NAMED_MAX],
            }
        )

    def _is_done(self, number: int) -> bool:
        return number < self._progress.done_below or number in self._done


async def _locally(chunk: RawValue, begun_at: datetime | None) -> Carried:
    carried: Carried = await workflow.execute_local_activity(
        names.CARRY,
        args=[chunk, begun_at],
        result_type=Carried,
        start_to_close_timeout=CARRY_TIMEOUT,
        retry_policy=AGAIN,
    )
    return carried


def _lasts(count: int, rate: float) -> timedelta:
    """How long a chunk keeps others from beginning."""
    return timedelta(seconds=count / rate)


def _by(word: Say | None) -> str | None:
    return None if word is None else f"{word.operator}: {word.reason}"


def _moving() -> ApplicationError:
    return ApplicationError("feed it again in a moment", type="Moving")


def _numbered(number: object, count: object) -> Numbered:
    return said({"number": decoded(number), "count": decoded(count)}, Numbered)
