"""What one cell of the matrix came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from drill.acceptance import REFUSED_WRITE, by_person

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drill.acceptance import Trace
    from drill.matrix.scene import Cell, Note


@dataclass(frozen=True, slots=True)
class Result:
    """One cell, played.

    Attributes:
        trace: What both sides know of its effect.
        notes: What the drill did.
        faults: A sentence for everything that is not as it must be.
    """

    cell: Cell
    about: str
    seed: int
    trace: Trace
    notes: Sequence[Note]
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether all is as it must be."""
        return not self.faults

    def document(self) -> dict[str, object]:
        """For machines."""
        row, moves = self.trace.row, self.trace.moves
        return {
            "row": self.cell.row,
            "class": self.cell.outside.value,
            "path": self.cell.route.value,
            "seed": self.seed,
            "task_id": self.cell.task_id,
            "effect_id": self.trace.effect_id,
            "state": None if row is None else row.state.value,
            "facts": len(self.trace.facts),
            "requests": len(self.trace.submits),
            "attempts": 0 if row is None else row.attempt,
            "refused_writes": moves.count(REFUSED_WRITE),
            "decided_by_a_person": by_person(self.trace),
            "moves": moves,
            "faults": list(self.faults),
            "ok": self.ok,
        }


def document(results: Sequence[Result]) -> dict[str, object]:
    """The whole matrix for machines."""
    failed = sum(not result.ok for result in results)
    return {
        "rows": [result.document() for result in results],
        "passed": len(results) - failed,
        "failed": failed,
        "ok": bool(results) and not failed,
    }
