"""``perform``: claim, one call outside, record, directive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio import activity

from activities import unserved
from activities.attempt import LEDGER_PAUSE
from activities.dispatch import dispatch
from activities.heartbeat import beating
from activities.pure import unclaimed
from activities.serving import Served, Serving, Unserved
from ascertain.contracts import directive, names
from ascertain.contracts.directive import RunQueued
from ascertain.contracts.work import Answer, Work
from ascertain.errors import LedgerDown

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue

    from ascertain.contracts.directive import Directive


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
        if work.first and served.kind.semantics.pure:
            done = await unclaimed(served, work.effect, on_progress)
            if done is not None:
                return done
        return await dispatch(self._serving, served, work.effect, on_progress=on_progress)
