"""An epoch: the ledger was restored from a backup, and does not know what was done after it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pydantic import AwareDatetime

from ascertain.contracts.value import Value

# The rule by which an effect begins in doubt; whose the claim is that stands for what may have been
# forgotten; and the error class of what nothing else is known of.
RESTORED: Final = "restored"
MAY_BE_FORGOTTEN: Final = "the ledger was restored and may have forgotten it"
# By so much the clocks of Temporal and of the ledger may differ.
CLOCKS: Final = timedelta(minutes=1)


class EpochRequest(Value):
    """What is to be asked for before it is sent.

    Attributes:
        since: The time of the backup.
        until: Tasks that were begun before may have been at work unknown to the ledger. None: now; later,
            where tasks that Temporal lost too are submitted again until then.
        request_id: A repeat with the same id raises nothing again.
    """

    since: AwareDatetime
    until: AwareDatetime | None = None
    by: str
    reason: str
    request_id: str


class Epoch(Value):
    """An epoch as it was raised; ``already_applied`` answers a repeated request.

    Attributes:
        raised_at: The ledger's clock.
    """

    since: AwareDatetime
    raised_at: AwareDatetime
    until: AwareDatetime
    by: str
    reason: str
    request_id: str
    already_applied: bool = False
