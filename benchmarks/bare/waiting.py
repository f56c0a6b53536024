"""A workflow of the bare side that stays open."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from temporalio import workflow

WAITING: Final = "BareWaiting"
# Started, its first workflow task scheduled, started and completed, and the timer.
EVENTS: Final = 5


@workflow.defn(name=WAITING)
class BareWaiting:
    """Waits on a timer and does nothing else."""

    @workflow.run
    async def run(self, days: int) -> None:
        """Wait for so many days."""
        await workflow.sleep(timedelta(days=days))
