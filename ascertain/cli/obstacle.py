"""Which closed gates keep the items of a replay from being done."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ascertain.cli import shape
from ascertain.cli.gate_command import EVERY
from ascertain.cli.text import counted
from ascertain.contracts.replay import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascertain.contracts.gate import Gate
    from ascertain.contracts.replay import Item
    from ascertain.ports import Ledger
    from ascertain.recovery import ReplayBook

_PAGE: Final = 1000
_NOT_AT_REST: Final = frozenset({Result.WAITING, Result.STARTED, Result.OPEN})


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A closed gate, and how many items wait behind it or will."""

    gate: Gate
    items: int

    @property
    def words(self) -> str:
        """For people: which gate, since when, by whom and why, and what opens it."""
        partition = self.gate.partition
        which = "--all" if partition == EVERY else partition
        held = counted(self.items, "item of it is", "items of it are")
        gate = shape.gate_words(self.gate, datetime.now(UTC))
        return (
            f"{held} asked for, but not sent before a gate opens: {gate} "
            f'`ascertain resume {which} --reason "WHY"` opens it.'
        )

    def document(self) -> dict[str, object]:
        """As one JSON object."""
        return {"items": self.items, **shape.gate_document(self.gate, datetime.now(UTC))}


async def obstacles(ledger: Ledger, items: Sequence[Item], *, passes: bool) -> list[Obstacle]:
    """The gates in the way of a replay's items, as they stand now.

    Args:
        ledger: Has the gates.
        items: Of the replay.
        passes: Whether it passes the gates of single partitions, as the replay of an incident does.
    """
    closed = {gate.partition: gate for gate in await ledger.gates() if gate.paused}
    waiting = Counter(item.partition for item in items if item.result in _NOT_AT_REST)
    if EVERY in closed and waiting:
        return [Obstacle(closed[EVERY], waiting.total())]
    return [
        Obstacle(closed[partition], count)
        for partition, count in sorted(waiting.items())
        if partition in closed and not passes
    ]


async def items_of(book: ReplayBook, replay_id: str) -> list[Item]:
    """Every item of a replay."""
    found: list[Item] = []
    while page := await book.items(
        replay_id, after=found[-1].effect_id if found else "", limit=_PAGE
    ):
        found += page
    return found
