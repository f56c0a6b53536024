"""Whether a restore may be told so: pure functions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ascertain.errors import CommandRefused, InputError

if TYPE_CHECKING:
    from ascertain.contracts.epoch import Epoch, EpochRequest


def admit(request: EpochRequest, now: datetime) -> None:
    """Let in a restore that nobody has told yet.

    Raises:
        InputError: Its backup is younger than now, or what it is told to hold until is over.
    """
    if request.since > now:
        raise InputError(
            f"since, {_words(request.since)}, lies in the future: name the time of the backup"
        )
    if request.until is not None and request.until < now:
        raise InputError(
            f"until, {_words(request.until)}, lies in the past, and nothing was changed: name a time to come "
            "until which lost tasks are submitted again, or leave it out"
        )


def repeated(request: EpochRequest, known: Epoch) -> Epoch:
    """What stands under the request's id, told as applied already.

    Raises:
        CommandRefused: It is another restore, of which that holds for a part only. What is told as so long
            ago is of a later time each time that it comes again, and is a repeat.
    """
    longer = request.until is not None and request.until > known.until
    if request.since < known.since or longer:
        used = f"the backup of {_words(known.since)}, until {_words(known.until)}"
        raise CommandRefused(
            f"request id {request.request_id} was used for {used}, which reaches less far; give another id"
        )
    return known.model_copy(update={"already_applied": True})


def _words(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
