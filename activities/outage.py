"""Outsides that cannot be asked: one notice for all that waits, and not one for each effect."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from activities.permit import steady
from ascertain.errors import LedgerDown

if TYPE_CHECKING:
    from collections.abc import Callable

    from ascertain.contracts.effect import EffectRow
    from ascertain.contracts.outage import Outage
    from ascertain.ports import Ledger

log = logging.getLogger("ascertain.outage")

# For so long a worker goes by what it knows: thousands of questions to a lookup that is down, or that
# works, are one statement.
KNOWN_FOR_S: Final = 5.0
# Most partitions and kinds of which it is remembered at once; of the rest the ledger is told again.
KNOWN_MAX: Final = 10_000


class Outages:
    """What this process knows of the lookups of each partition and kind."""

    def __init__(self, clock: Callable[[], float] = steady) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, Outage | None]] = {}

    async def down(self, ledger: Ledger, row: EffectRow, why: str) -> tuple[str, int]:
        """Note that the outside could not be asked; gives the notice, and how much waits for its answer."""
        outage = self._fresh(row)
        if outage is None:
            outage = await ledger.note_outage(row.partition, row.kind, why)
            self._know(row, outage)
        return f"{outage.words} in {row.partition} ({why})", outage.waiting

    async def up(self, ledger: Ledger, row: EffectRow) -> None:
        """Note that it could; what is not noted now is noted at one of the next questions."""
        at, outage = self._known.get((row.partition, row.kind), (0.0, None))
        if at and outage is None and self._clock() - at < KNOWN_FOR_S:
            return
        try:
            await ledger.end_outage(row.partition, row.kind)
        except LedgerDown as error:
            log.warning("the end of an outage could not be noted: %s", error)
            return
        self._know(row, None)

    def _know(self, row: EffectRow, outage: Outage | None) -> None:
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[row.partition, row.kind] = (self._clock(), outage)

    def _fresh(self, row: EffectRow) -> Outage | None:
        at, outage = self._known.get((row.partition, row.kind), (0.0, None))
        return outage if at and self._clock() - at < KNOWN_FOR_S else None
