"""``sweep``: find effects whose workflow is gone, so that nothing hangs in flight for ever."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio import activity

from activities import breaker
from ascertain.contracts import names
from ascertain.contracts.effect import Evidence, State
from ascertain.contracts.sweep import TOLD, Cursor, SweepReport, SweepRequest, SweptPage
from ascertain.errors import Unavailable
from ascertain.ports import Page, Tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from activities.serving import Serving
    from ascertain.contracts.effect import EffectRow

log = logging.getLogger("ascertain.sweep")

SWEPT: Final = (
    State.IN_FLIGHT,
    State.UNKNOWN,
    State.ACCEPTED,
    State.QUARANTINED,
    State.TAKEN_OVER,
)
# These wait for a person, for days maybe. Each is looked at once in so many sweeps.
RESTING: Final = frozenset({State.QUARANTINED, State.TAKEN_OVER})
TURNS: Final = 30
PAGE: Final = 200
AT_ONCE: Final = 10


class Sweep:
    """The activity behind the schedule: one page of unresolved effects, oldest first."""

    def __init__(self, serving: Serving, tasks: Tasks) -> None:
        self._serving = serving
        self._tasks = tasks

    @activity.defn(name=names.SWEEP)
    async def sweep(self, request: SweepRequest) -> SweptPage:
        """Fence what an ended workflow left in flight, and have its task's effects ascertained.

        Raises:
            Unavailable: Not one effect of the page could be looked into.
        """
        if request.at is None:
            await breaker.look(self._serving.breakers, self._serving.ledger)
        at = request.at or Cursor(state=SWEPT[0])
        page = Page(at.state, request.older_than, at.after, PAGE)
        rows = await self._serving.ledger.quiet(page)
        report = await self._look_at([row for row in rows if _has_its_turn(row, request)])
        return SweptPage(report=report, next=_next(at.state, rows))

    async def _look_at(self, rows: list[EffectRow]) -> SweepReport:
        some = asyncio.Semaphore(AT_ONCE)
        found = await asyncio.gather(*(self._guarded(row, some) for row in rows))
        orphans = {
            row.effect_id: (row.task_id, was)
            for row, was in zip(rows, found, strict=True)
            if isinstance(was, bool)
        }
        unasked = {
            effect_id: task_id for effect_id, (task_id, asked) in orphans.items() if not asked
        }
        faults = [was for was in found if isinstance(was, str)]
        if rows and len(faults) == len(rows):
            raise Unavailable(f"none of {len(rows)} effects could be looked into: {faults[0]}")
        return SweepReport(
            looked_at=len(rows),
            orphaned=len(orphans),
            failed=len(faults),
            orphans=tuple([*orphans][:TOLD]),
            unasked=dict([*unasked.items()][:TOLD]),
            faults=tuple(faults[:TOLD]),
        )

    async def _guarded(self, row: EffectRow, some: asyncio.Semaphore) -> bool | str | None:
        """As ``_orphaned``, or what went wrong: one broken task must not stop the others."""
        async with some:
            activity.heartbeat(row.effect_id)
            try:
                return await self._orphaned(row)
            except Exception as error:  # whatever it is, it is this effect's
                log.warning("sweep: %s could not be looked into", row.effect_id, exc_info=True)
                return f"{row.effect_id}: {type(error).__name__}: {error}"

    async def _orphaned(self, row: EffectRow) -> bool | None:
        """Whether it is asked for now; None: its own workflow pursues it."""
        ended = await self._tasks.ended(row.task_id)
        if ended is None:
            return None
        ledger, by = self._serving.ledger, self._serving.identity
        if row.state is State.IN_FLIGHT:
            await ledger.fence(row.effect_id, row.version, by)
        asked = await self._tasks.ascertain(row.task_id)
        if asked or row.state is State.IN_FLIGHT:
            what_next = (
                "it is asked for now" if asked else "submit the task again to have it asked for"
            )
            why = f"the task's workflow was ended from outside ({ended}); {what_next}"
            evidence = Evidence(source="rule", rule="orphaned", detail=why)
            await ledger.note(row.effect_id, by, evidence)
        return asked


def _has_its_turn(row: EffectRow, request: SweepRequest) -> bool:
    if row.state not in RESTING or not request.older_than:
        return True
    every = max(request.older_than, timedelta(seconds=1))
    turn = int(row.now.timestamp() / every.total_seconds()) % TURNS
    return hashlib.sha256(row.effect_id.encode()).digest()[0] % TURNS == turn


def _next(state: State, rows: Sequence[EffectRow]) -> Cursor | None:
    """After the last row, or at the beginning of the next state; None at the very end."""
    if len(rows) == PAGE:
        return Cursor(state=state, after=(rows[-1].state_since, rows[-1].effect_id))
    later = SWEPT[SWEPT.index(state) + 1 :]
    return Cursor(state=later[0]) if later else None
