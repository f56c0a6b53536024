"""What a sweep is asked to look at, and what it found."""

from __future__ import annotations

from datetime import timedelta

from ascertain.contracts.value import Value


class SweepRequest(Value):
    """Only effects whose state is at least this old are looked at."""

    older_than: timedelta = timedelta(minutes=1)


class SweepReport(Value):
    """How many unresolved effects were looked at, and the ids of those that no workflow pursues."""

    looked_at: int
    orphans: tuple[str, ...]
