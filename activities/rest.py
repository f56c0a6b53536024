"""``rest``: of which effects of a task the ledger knows that may exist, whether it came to them or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from temporalio import activity

from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.contracts.task import MAX_STEPS
from ascertain.contracts.work import Known
from ascertain.ports import EffectFilter

if TYPE_CHECKING:
    from activities.serving import Serving

# Closed, and nothing of it exists. What is CLEAR may have a receipt that came too late.
GONE: Final = frozenset({State.REFUSED, State.ABANDONED, State.SUPERSEDED})
# Each step and its undo has one live row.
LIMIT: Final = 2 * MAX_STEPS


class Rest:
    """The activity that a task asks before it ends without having come to all its steps."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    @activity.defn(name=names.REST)
    async def rest(self, task_id: str) -> Known:
        """Name the steps, undo steps among them, whose effects are not known to be gone.

        Raises:
            LedgerDown: Asked again until it answers.
        """
        which = EffectFilter(states=frozenset(State) - GONE, task_id=task_id, limit=LIMIT)
        rows = await self._serving.ledger.effects(which)
        return Known(steps=tuple(sorted(row.step for row in rows)))
