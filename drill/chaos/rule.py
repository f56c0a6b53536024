"""What the toy outside is told about the requests of one effect of a chaos run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ascertain.testing.knob import Answer, LookupKnobs, Rule
from drill.trouble import KNOBS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drill.chaos.plan import Errand

_DOWN: Final = LookupKnobs(reply=Answer(status=503, body={}))


def rules(errand: Errand, effect: str) -> Iterator[Rule]:
    """The rules of one errand."""
    for trouble in errand.troubles:
        yield Rule(key=effect, times=1, submit=KNOBS[trouble])
    if errand.lookups_down:
        yield Rule(reference=effect, times=errand.lookups_down, lookup=_DOWN)
