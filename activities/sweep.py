"""``sweep``: find effects whose workflow is gone, so that nothing hangs in flight for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio import activity

from ascertain.contracts import names
from ascertain.contracts.effect import Evidence, State
from ascertain.contracts.sweep import SweepReport, SweepRequest
from ascertain.ports import EffectFilter, Tasks

if TYPE_CHECKING:
    from activities.serving import Serving
    from ascertain.contracts.effect import EffectRow

OPEN_STATES = frozenset({State.IN_FLIGHT, State.UNKNOWN, State.ACCEPTED})
# One sweep looks at so many; what is left is looked at by the next one.
LIMIT = 1000


class Sweep:
    """The activity behind the schedule."""

    def __init__(self, serving: Serving, tasks: Tasks) -> None:
        self._serving = serving
        self._tasks = tasks

    @activity.defn(name=names.SWEEP)
    async def sweep(self, request: SweepRequest) -> SweepReport:
        """Fence what an ended workflow left in flight, and have its task's effects ascertained."""
        rows = await self._serving.ledger.effects(EffectFilter(states=OPEN_STATES, limit=LIMIT))
        orphans: list[str] = []
        for row in rows:
            activity.heartbeat(len(orphans))
            if _is_quiet(row, request) and await self._orphaned(row):
                orphans.append(row.effect_id)
        return SweepReport(looked_at=len(rows), orphans=tuple(orphans))

    async def _orphaned(self, row: EffectRow) -> bool:
        ended = await self._tasks.ended(row.task_id)
        if ended is None:
            return False
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
        return True


def _is_quiet(row: EffectRow, request: SweepRequest) -> bool:
    """Old enough that its own task would have moved it, and nothing can be sent under its claim."""
    return row.now - row.state_since >= request.older_than and row.now >= row.lease_until
