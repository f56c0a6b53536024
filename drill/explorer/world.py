"""One state of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from drill.explorer import asker, hand, person
from drill.explorer.one import crowd, one
from drill.explorer.outside import Outside

if TYPE_CHECKING:
    from drill.explorer.asker import Asker
    from drill.explorer.hand import Hand
    from drill.explorer.page import Page
    from drill.explorer.person import Person
    from drill.explorer.setting import Setting


class World(NamedTuple):
    """Everything that can be said of one moment.

    Attributes:
        page: What the ledger holds; None before the first claim.
        shut: The gate is closed.
        hands: The calls at hand; which is which does not matter.
        asking: Those who reconcile, for the task or for the sweep; which is which does not matter.
        eve: The clock is about to strike: only what cannot happen after that still happens.
        overridden: A person insisted against what was known.
        cancelled: The task was told that it is cancelled and that this effect is not done.
    """

    page: Page | None
    shut: bool
    hands: tuple[Hand, ...]
    asking: tuple[Asker, ...]
    person: Person
    outside: Outside
    eve: bool
    overridden: bool
    cancelled: bool = False


def beginning(setting: Setting) -> World:
    """Nothing was claimed, nothing was sent."""
    facts = (0,) if setting.truth.shared else ()
    return World(
        page=None,
        shut=False,
        hands=crowd(*[hand.IDLE] * setting.scale.calls),
        asking=crowd(*[asker.IDLE] * setting.scale.askers),
        person=person.IDLE,
        outside=one(Outside(facts=facts)),
        eve=False,
        overridden=False,
    )
