"""One authorised attempt: call once under a granted claim, record what came of it, say what is next."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from activities import breaker
from activities.calling import busy_with, called, doubt, unsent
from activities.permit import HeldPermit, steady
from ascertain.contracts import directive, outcome
from ascertain.contracts.claim import Moved, Stale, Taken
from ascertain.contracts.effect import RESTS_ON_KEY
from ascertain.errors import LedgerDown
from ascertain.policy import directive_for, key_ends, says_of_effect
from ascertain.ports import Call
from ascertain.wait import retry_wait

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from pydantic import JsonValue

    from activities.breaker import Breakers
    from ascertain.contracts.claim import Granted, Written
    from ascertain.contracts.directive import Directive
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.outcome import Outcome
    from ascertain.ports import Adapter, Kind, Ledger

AnswerT = TypeVar("AnswerT")

# How long a worker goes on asking the ledger before Temporal's history carries what it knows. An
# inline attempt asks up to three times as long, and calls, within its activity's own time-out.
LEDGER_WITHIN = timedelta(seconds=6)
LEDGER_TRY = timedelta(seconds=3)
LEDGER_WAITS = (0.05, 0.1, 0.2, 0.4, 0.8)
LEDGER_PAUSE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A granted claim on its way outside.

    Attributes:
        asked_at: The steady clock before the claim was asked for.
        interruptible: Whether a cancellation breaks off the call. Short inline calls are let finish:
            a worker that is told to stop drains them.
    """

    ledger: Ledger
    kind: Kind
    adapter: Adapter
    effect: Effect
    granted: Granted
    asked_at: float
    breakers: Breakers
    on_progress: Callable[[JsonValue], None] | None = None
    interruptible: bool = True

    async def run(self) -> Directive:
        """Make the one call, record its outcome, and give the next step."""
        if not self.interruptible:
            return await to_its_end(self._call_and_record())
        return await self._call_and_record()

    async def _call_and_record(self) -> Directive:
        permit = self.permit()
        try:
            came_to = await self._call(permit)
        except asyncio.CancelledError:
            await to_its_end(self.record(_interrupted(permit)))
            raise
        return await to_its_end(self.record(came_to))

    async def call(self) -> Outcome:
        """Make the one call and say what came of it; whatever is not told is doubt."""
        return await self._call(self.permit())

    def permit(self) -> HeldPermit:
        """The permit of its one call."""
        row = self.granted.row
        return HeldPermit(
            self.ledger,
            self.granted.lease,
            asked_at=self.asked_at,
            length=self.kind.policy.lease,
            key_ends=key_ends(row, self.kind) if row.evidence.rule in RESTS_ON_KEY else None,
            on_progress=self.on_progress,
        )

    async def _call(self, permit: HeldPermit) -> Outcome:
        async def send() -> tuple[Outcome]:
            return (await self.adapter.perform(self.outside_call(), permit),)

        busy_with(self.kind.name, self.effect.effect_id)
        (came_to,) = await called(send, [permit], self.kind, [self.effect], self.breakers)
        return came_to

    def outside_call(self) -> Call:
        """What the adapter is given: the bytes that were frozen, whatever would be prepared today."""
        row = self.granted.row
        return Call(self.effect, row.frozen, row.attempt, row.job_id)

    async def record(self, came_to: Outcome) -> Directive:
        """Write down what came of the call, and give the next step."""
        lease = self.granted.lease
        came_to = says_of_effect(self.granted.row, came_to)
        retry_in = _retry_in(came_to, self.granted, self.kind)
        try:
            written = await persist(lambda: self.ledger.record(lease, came_to, retry_in=retry_in))
            if isinstance(written, Taken):
                taken = doubt("fact_taken", written.why)
                written = await persist(lambda: self.ledger.record(lease, taken))
        except LedgerDown as error:
            return directive.ReconcileIn(
                delay=LEDGER_PAUSE,
                reason=str(error),
                unrecorded=directive.Unrecorded(
                    lease_version=lease.lease_version,
                    attempt=lease.attempt,
                    owner=lease.owner,
                    outcome=came_to,
                    retry_in=retry_in,
                ),
            )
        if isinstance(came_to, outcome.Unknown | outcome.NotDone):
            await breaker.failed(self.breakers, self.ledger, self.effect)
        return after_write(written, self.kind)


async def to_its_end(recording: Coroutine[None, None, AnswerT]) -> AnswerT:
    """Record whatever is known, also if nobody waits for us any more: a late receipt is a fact.

    A worker that was frozen is told on its first steps that its activity is cancelled.
    """
    task = asyncio.ensure_future(recording)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def persist(write: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
    """Repeat a guarded statement while the ledger does not answer, for a few seconds in all.

    A repeat is safe: it meets its own lease. A ledger that hangs counts as one that is down, so that
    there is time left to give the outcome to Temporal's history. No single try counts for more than
    ``LEDGER_TRY``: a worker that was frozen in one tries again when it thaws, for a late receipt is a fact.

    Raises:
        LedgerDown: It did not answer within ``LEDGER_WITHIN``.
    """
    left = LEDGER_WITHIN.total_seconds()
    for wait in LEDGER_WAITS:
        begun = steady()
        try:
            return await _tried(write)
        except LedgerDown:
            left -= min(steady() - begun, LEDGER_TRY.total_seconds())
            if left <= 0:
                raise
            await asyncio.sleep(wait)
    return await _tried(write)


async def _tried(write: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
    try:
        async with asyncio.timeout(LEDGER_TRY.total_seconds()):
            return await write()
    except TimeoutError as error:
        within = f"{LEDGER_TRY.total_seconds():g} s"
        raise LedgerDown(f"the ledger did not answer within {within}; it is asked later") from error


def after_write(written: Written, kind: Kind) -> Directive:
    """The next step once the ledger has answered a write, applied or not."""
    match written:
        case Moved(row):
            return directive_for(row, kind)
        case Stale(row) | Taken(row=row) if row is not None:
            return directive_for(row, kind)
        case _:
            return directive.RetryIn(
                delay=timedelta(0), reason="the ledger does not know the effect"
            )


def _retry_in(came_to: Outcome, granted: Granted, kind: Kind) -> timedelta | None:
    if not isinstance(came_to, outcome.NotDone):
        return None
    return max(retry_wait(granted.row, kind), came_to.retry_after or timedelta(0))


def _interrupted(permit: HeldPermit) -> Outcome:
    if not permit.used:
        return unsent("never_left", "the attempt was cancelled before its call left")
    return doubt("interrupted", "the attempt was cancelled while it may have been outside")
