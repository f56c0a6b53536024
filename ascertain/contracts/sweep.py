"""What a sweep is asked to look at, and what it found."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pydantic import Field

from ascertain.contracts.effect import State
from ascertain.contracts.value import Moment, Span, Value

TOLD: Final = 50


class Cursor(Value):
    """Where to go on.

    Attributes:
        state: With effects in this state.
        after: ``state_since`` and ``effect_id`` of the last one that was looked at; None: from the oldest.
    """

    state: State
    after: tuple[Moment, str] | None = None


class SweepReport(Value):
    """What was found.

    Attributes:
        looked_at: How many unresolved effects.
        orphaned: How many of them no workflow pursued.
        failed: How many could not be looked into; the next sweep comes to them again.
        orphans: The ids of the first of them that were orphaned.
        unasked: The first of them that nothing can ask for, because Temporal has forgotten what their task
            was started with; each with its task, which has to be submitted again.
        faults: What went wrong, for the first that could not be looked into.
    """

    looked_at: int = 0
    orphaned: int = 0
    failed: int = 0
    orphans: tuple[str, ...] = ()
    unasked: dict[str, str] = Field(default_factory=dict)
    faults: tuple[str, ...] = ()

    def plus(self, other: SweepReport) -> SweepReport:
        """Both together; of the lists the first few."""
        return SweepReport(
            looked_at=self.looked_at + other.looked_at,
            orphaned=self.orphaned + other.orphaned,
            failed=self.failed + other.failed,
            orphans=(self.orphans + other.orphans)[:TOLD],
            unasked=dict([*(self.unasked | other.unasked).items()][:TOLD]),
            faults=(self.faults + other.faults)[:TOLD],
        )


class SweepRequest(Value):
    """Which effects are to be looked at.

    Attributes:
        older_than: Only those whose state is at least this old.
        at: Where to go on; None: at the beginning.
        so_far: What was found up to there.
    """

    older_than: Span = timedelta(minutes=1)
    at: Cursor | None = None
    so_far: SweepReport = SweepReport()


class SweptPage(Value):
    """What one page held, and where to go on; None: that was the last."""

    report: SweepReport
    next: Cursor | None = None
