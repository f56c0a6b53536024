"""What can become of one answer, and how the toy outside makes it so."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ascertain.testing.knob import Answer, CutOff, Drop, Silence, SubmitKnobs

if TYPE_CHECKING:
    from collections.abc import Mapping


class Trouble(StrEnum):
    """What becomes of one answer. ``done`` and ``undone``: whether the outside did it all the same."""

    DONE_RESET = "done, connection reset"
    DONE_CLOSED = "done, connection closed"
    DONE_SILENCE = "done, no answer"
    DONE_LATE = "done after the caller gave up"
    DONE_BAD_GATEWAY = "done, answered 502"
    DONE_CUT_OFF = "done, answer cut off"
    UNDONE_RESET = "not done, connection reset"
    UNDONE_SILENCE = "not done, no answer"
    UNDONE_UNAVAILABLE = "not done, answered 503"
    UNDONE_FALSE_SUCCESS = "not done, answered 200"


# Longer than an answer is waited for, and well within the time in which a sent request may take effect.
LATE_S: Final = 1.4
_SILENCE: Final = Silence(seconds=3)
_GATEWAY: Final = "<html>Bad Gateway</html>"

KNOBS: Final[Mapping[Trouble, SubmitKnobs]] = {
    Trouble.DONE_RESET: SubmitKnobs(reply=Drop(how="reset")),
    Trouble.DONE_CLOSED: SubmitKnobs(reply=Drop(how="close")),
    Trouble.DONE_SILENCE: SubmitKnobs(reply=_SILENCE),
    Trouble.DONE_LATE: SubmitKnobs(commit=LATE_S, reply=_SILENCE),
    Trouble.DONE_BAD_GATEWAY: SubmitKnobs(reply=Answer(status=502, text=_GATEWAY)),
    Trouble.DONE_CUT_OFF: SubmitKnobs(reply=CutOff(keep_bytes=10)),
    Trouble.UNDONE_RESET: SubmitKnobs(commit="never", reply=Drop(how="reset")),
    Trouble.UNDONE_SILENCE: SubmitKnobs(commit="never", reply=_SILENCE),
    Trouble.UNDONE_UNAVAILABLE: SubmitKnobs(commit="never", reply=Answer(status=503, body={})),
    Trouble.UNDONE_FALSE_SUCCESS: SubmitKnobs(
        commit="never", reply=Answer(status=200, body={"error": "internal"})
    ),
}
