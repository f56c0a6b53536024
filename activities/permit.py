"""A granted claim as the permit to dispatch, measured by this machine's own steady clock."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from ascertain.contracts.claim import Moved, Paused
from ascertain.errors import LedgerDown, PermitLost

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from pydantic import JsonValue

    from ascertain.contracts.claim import Lease
    from ascertain.ports import Ledger


def steady() -> float:
    """Seconds of a clock that nobody sets and that goes on while the process is frozen."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class HeldPermit:
    """The permit of one claim.

    Its end is counted from *before* the claim was asked for, so it is never later than the ledger's
    ``lease_until``, whatever the wall clocks of worker and ledger say.
    """

    def __init__(
        self,
        ledger: Ledger,
        lease: Lease,
        *,
        asked_at: float,
        length: timedelta,
        key_ends: datetime | None = None,
        on_progress: Callable[[JsonValue], None] | None = None,
    ) -> None:
        """The permit of one claim.

        Args:
            ledger: Renews it.
            lease: The claim.
            asked_at: The steady clock before the claim was asked for.
            length: Of the claim.
            key_ends: A call that rests on its key is not permitted beyond it; None: it does not.
            on_progress: Where long work tells how far it is.
        """
        self._ledger = ledger
        self._lease = lease
        self._length = length
        self._until = asked_at + length.total_seconds()
        self._key_ends = key_ends
        self._on_progress = on_progress
        self._used = False

    @property
    def used(self) -> bool:
        """Whether a call was dispatched under it."""
        return self._used

    def check(self) -> None:
        """Use the permit up, or raise PermitLost."""
        if self._used:
            msg = f"{self._lease.effect_id}: the permit was used already; one claim, one call"
            raise PermitLost(msg)
        if steady() >= self._until:
            msg = f"{self._lease.effect_id}: the permit ran out before the call left; nothing was sent"
            raise PermitLost(msg)
        self._used = True

    def spend(self) -> None:
        """End it with its attempt: a thread that the adapter left behind sends nothing any more."""
        self._until = -math.inf

    async def renew(self) -> None:
        """Lengthen it from now on, if the claim stands and may dispatch yet; raise PermitLost otherwise."""
        asked_at = steady()
        try:
            answer = await self._ledger.renew(self._lease, self._length)
        except LedgerDown as error:
            msg = f"{self._lease.effect_id}: the permit could not be renewed; nothing was sent"
            raise PermitLost(msg) from error
        if isinstance(answer, Paused):
            self.spend()
            raise PermitLost(f"{self._lease.effect_id}: {answer.words}; nothing was sent")
        if self._until == -math.inf:
            msg = f"{self._lease.effect_id}: its attempt is over; nothing was sent"
            raise PermitLost(msg)
        if self._used or not isinstance(answer, Moved):
            msg = f"{self._lease.effect_id}: the claim was fenced; nothing was sent"
            raise PermitLost(msg)
        if self._key_ends is not None and answer.row.now + self._length > self._key_ends:
            self.spend()
            msg = f"{self._lease.effect_id}: its key protects too short; nothing was sent"
            raise PermitLost(msg)
        self._until = asked_at + self._length.total_seconds()

    def heartbeat(self, progress: JsonValue) -> None:
        """Pass progress on to whoever listens."""
        if self._on_progress is not None:
            self._on_progress(progress)
