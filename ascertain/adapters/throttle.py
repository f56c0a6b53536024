"""How long to wait when the outside says "later", whatever it really wrote."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from pydantic import model_validator

from ascertain.contracts.value import StrictValue

# Waits are spread over this share of themselves, so that a herd that was sent away does not come back
# as a herd.
_SPREAD = 0.25


class Throttle(StrictValue):
    """Limits of a wait that the outside asks for.

    Attributes:
        floor: The shortest wait, also when it says nothing, nonsense, or a time that has passed.
        cap: The longest wait, spread included, whatever it says.
    """

    floor: timedelta = timedelta(seconds=1)
    cap: timedelta = timedelta(minutes=5)

    @model_validator(mode="after")
    def _in_order(self) -> Throttle:
        if not timedelta(0) < self.floor * (1 + _SPREAD) <= self.cap:
            msg = "floor must be more than 0, and cap at least a quarter above it"
            raise ValueError(msg)
        return self

    def wait(self, retry_after: str | None, *, now: datetime, who: str) -> timedelta:
        """The wait that ``Retry-After`` comes to, for ``who``: the same for the same arguments."""
        asked = _asked_seconds(retry_after, now)
        longest = self.cap.total_seconds() / (1 + _SPREAD)
        seconds = min(max(asked, self.floor.total_seconds()), longest)
        return timedelta(seconds=seconds * (1 + _SPREAD * _share(who)))


def _asked_seconds(retry_after: str | None, now: datetime) -> float:
    """Seconds as written, a date's distance from now, or 0 for anything else."""
    text = (retry_after or "").strip()
    try:
        seconds = float(text)
    except ValueError:
        return _seconds_until(text, now)
    return 0.0 if math.isnan(seconds) else seconds


def _seconds_until(text: str, now: datetime) -> float:
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return (until - now).total_seconds()


def _share(who: str) -> float:
    """A number in [0, 1) that differs between those who wait."""
    return int.from_bytes(hashlib.sha256(who.encode()).digest()[:4], "big") / 2**32
