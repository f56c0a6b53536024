"""Which closed gates keep the items of a replay from being done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ascertain.cli import shape
from ascertain.cli.gate_command import EVERY
from ascertain.cli.text import counted

if TYPE_CHECKING:
    from ascertain.contracts.gate import Gate
    from ascertain.ledger.postgres import PostgresLedger


@dataclass(frozen=True, slots=True)
class Hold:
    """A closed gate, and how many items wait behind it or will."""

    gate: Gate
    items: int

    @property
    def words(self) -> str:
        """For people: which gate, since when, by whom and why, and what opens it."""
        held = counted(self.items, "item of it is", "items of it are")
        gate = shape.gate_words(self.gate, datetime.now(UTC))
        return (
            f"{held} asked for, but not sent before a gate opens: {gate} "
            f"{opens(self.gate.partition)}"
        )

    def document(self) -> dict[str, object]:
        """As one JSON object."""
        return {"items": self.items, **shape.gate_document(self.gate, datetime.now(UTC))}


def opens(partition: str) -> str:
    """The command that opens the gate of a partition."""
    which = "--all" if partition == EVERY else partition
    return f'`ascertain resume {which} --reason "WHY"` opens it.'


async def holds(ledger: PostgresLedger, replay_id: str, *, passes: bool) -> list[Hold]:
    """The gates in the way of a replay's items, as they stand now.

    Args:
        ledger: Has the gates, and the items.
        replay_id: Which replay.
        passes: Whether it passes the gates of single partitions, as the replay of an incident does.
    """
    closed = {gate.partition: gate for gate in await ledger.gates() if gate.paused}
    if not closed:
        return []
    waiting = await ledger.replays.waiting(replay_id)
    if EVERY in closed and waiting:
        return [Hold(closed[EVERY], sum(waiting.values()))]
    return [
        Hold(closed[partition], count)
        for partition, count in waiting.items()
        if partition in closed and not passes
    ]
