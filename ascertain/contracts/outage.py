"""An outage: an outside that cannot be asked. One notice for all that waits for it."""

from __future__ import annotations

from typing import Final

from pydantic import AwareDatetime

from ascertain.contracts.value import Value

CANNOT: Final = "cannot be asked since"


class Outage(Value):
    """The lookup of one kind is down in one partition.

    Attributes:
        since: When it could not be asked for the first time.
        reason: What the last try came to.
        waiting: How many effects wait for its answer.
    """

    partition: str
    kind: str
    since: AwareDatetime
    reason: str
    waiting: int

    @property
    def words(self) -> str:
        """The notice."""
        since = f"{self.since:%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.kind} {CANNOT} {since}; {self.waiting} waiting"
