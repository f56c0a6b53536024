"""``perform``: claim, one call outside, record, directive."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from temporalio import activity

from activities import unserved
from activities.attempt import LEDGER_PAUSE
from activities.dispatch import dispatch
from activities.heartbeat import beating
from activities.pure import unclaimed
from activities.serving import Served, Serving, Unserved
from ascertain.contracts import directive, names
from ascertain.contracts.directive import RunQueued
from ascertain.contracts.effect import State
from ascertain.contracts.work import Answer, Work
from ascertain.errors import LedgerDown

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue

    from ascertain.contracts.directive import Directive

# The task gives up by the server's clock, which may be a little behind ours.
LATE_PAUSE: Final = timedelta(seconds=1)


class Perform:
    """The activity that may act outside."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    @activity.defn(name=names.PERFORM)
    async def perform(self, work: Work) -> Answer:
        """Bring one effect about if its claim is granted; never call while an earlier one is open."""
        served = self._serving.find(work.effect.kind)
        if isinstance(served, RunQueued):
            return Answer(directive=served)
        async with beating() as on_progress:
            try:
                if isinstance(served, Unserved):
                    following = await unserved.stands(self._serving, work, served.reason)
                else:
                    following = await self._following(served, work, on_progress)
            except LedgerDown as error:
                following = directive.RetryIn(delay=LEDGER_PAUSE, reason=str(error))
        return Answer(directive=following)

    async def _following(
        self, served: Served, work: Work, on_progress: Callable[[JsonValue], None] | None
    ) -> Directive:
        if await self._comes_too_late(work):
            return directive.RetryIn(
                delay=LATE_PAUSE, reason="its task's deadline has passed, so it is not begun"
            )
        if work.first and served.kind.semantics.pure:
            done = await unclaimed(served, work.effect, on_progress)
            if done is not None:
                return done
        return await dispatch(self._serving, served, work.effect, on_progress=on_progress)

    async def _comes_too_late(self, work: Work) -> bool:
        """Whether the deadline is over and the effect provably does not exist; it may have waited long."""
        if work.deadline is None or datetime.now(UTC) < work.deadline:
            return False
        case = await self._serving.ledger.inspect(work.effect.effect_id)
        return case is None or case.row.state is State.CLEAR
