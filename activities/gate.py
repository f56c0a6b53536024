"""``set_gate``: open or close a partition's gate, and count what may still act behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio import activity
from temporalio.exceptions import ApplicationError

from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.contracts.gate import GateAnswer, GateChange
from ascertain.errors import CommandRefused
from ascertain.ports import EffectFilter

if TYPE_CHECKING:
    from activities.serving import Serving

# More attempts than may be in flight at once in one partition.
LIMIT = 10_000


class Gates:
    """The activity behind pausing by workflow."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    @activity.defn(name=names.SET_GATE)
    async def set_gate(self, change: GateChange) -> GateAnswer:
        """Have the gate in the wanted position; asked again, it counts again and changes nothing.

        Raises:
            ApplicationError: ``CommandRefused``: the request id was another command's. Not tried again.
        """
        try:
            gate = await self._serving.ledger.set_gate(change)
        except CommandRefused as error:
            raise ApplicationError(
                str(error), type=names.COMMAND_REFUSED, non_retryable=True
            ) from None
        if not change.paused:
            return GateAnswer(gate=gate)
        which = EffectFilter(
            states=frozenset({State.IN_FLIGHT}),
            partition=None if change.partition == "*" else change.partition,
            limit=LIMIT,
        )
        rows = await self._serving.ledger.effects(which)
        ends = [row.lease_until for row in rows if row.now < row.lease_until]
        return GateAnswer(gate=gate, in_flight=len(rows), may_send_until=max(ends, default=None))
