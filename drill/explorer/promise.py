"""What follows if something does not behave as promised: in which classes a second fact can come about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from drill.explorer.protocol import Protocol
from drill.explorer.setting import SMALL, semantics_of, settings
from drill.explorer.story import story_of
from drill.explorer.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from drill.explorer.setting import Setting
    from drill.explorer.story import Story

CLASSES: Final = ("asked-keyed", "asked", "asked-at-once", "keyed", "neither")
# The key lives one tick longer and its margin takes that tick off again: room for what comes late. And
# one more grant, so that an attempt that came to nothing can stand between two that did not.
_ROOM: Final = replace(SMALL, key=SMALL.key + 1, long_key=SMALL.long_key + 1, budget=3)


@dataclass(frozen=True, slots=True)
class Promise:
    """Something that the protocol relies on and cannot enforce.

    Attributes:
        name: How it is broken, by one tick of the clock.
        breaks: The world in which it is.
    """

    name: str
    breaks: Callable[[Setting], Setting]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a broken promise costs in one class of outside.

    Attributes:
        people: Whether a person takes part, who looks before he speaks and overrides nothing.
        story: The shortest way to a second fact; None: there is none.
    """

    promise: str
    where: str
    people: bool
    states: int
    story: Story | None


def _pauses(setting: Setting) -> Setting:
    return replace(setting, pause=1)


def _lands_late(setting: Setting) -> Setting:
    truth = setting.truth
    return replace(setting, truth=replace(truth, in_flight=truth.in_flight + 1))


def _shows_late(setting: Setting) -> Setting:
    truth = setting.truth
    lag = None if truth.lag is None else truth.lag + 1
    return replace(setting, truth=replace(truth, lag=lag))


PROMISES: Final = (
    Promise("a process stands still between its permit's check and the wire", _pauses),
    Promise("a request takes effect later than declared", _lands_late),
    Promise("a fact shows in the lookup later than declared", _shows_late),
)


def cost(promise: Promise, where: str, *, people: bool) -> Cost:
    """Walk one class of outside with a broken promise, and look for a second fact."""
    setting = settings(_ROOM)[where]
    honest = replace(
        setting,
        semantics=semantics_of(setting.truth, spare=1),
        people=people,
        facts_only=True,
        renews=False,
    )
    with Protocol(promise.breaks(honest)) as protocol:
        walked = walk(protocol)
        story = None if walked.fault is None else story_of(protocol, walked)
        return Cost(promise.name, where, people, len(walked.worlds), story)
