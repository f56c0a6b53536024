"""A fault, told: who did what in which order, and what stood in the ledger and outside after it."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_uppercase
from typing import TYPE_CHECKING, Final

from drill.explorer import asker, hand
from drill.explorer.one import crowd, in_place
from drill.explorer.step import Actor, steps
from drill.explorer.world import beginning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drill.explorer.protocol import Protocol
    from drill.explorer.step import Step
    from drill.explorer.walk import Walk
    from drill.explorer.world import World

_NAMES: Final = {
    Actor.PERSON: "the operator",
    Actor.OUTSIDE: "the outside",
    Actor.ANOTHER: "another effect",
    Actor.GATE: "the gate",
    Actor.CLOCK: "the clock",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """One step of a story.

    Attributes:
        at: Ticks since the beginning.
        ledger: The effect's state after it; a dash before the first claim.
        facts: How many facts exist outside after it.
    """

    at: int
    who: str
    what: str
    ledger: str
    facts: int


@dataclass(frozen=True, slots=True)
class Story:
    """The shortest way to a fault."""

    why: str
    scenes: tuple[Scene, ...]

    def lines(self) -> Sequence[str]:
        """For people."""
        who = max((len(scene.who) for scene in self.scenes), default=0)
        what = max((len(scene.what) for scene in self.scenes), default=0)
        told = [
            f"T+{scene.at}  {scene.who:<{who}}  {scene.what:<{what}}  "
            f"ledger {scene.ledger}, facts {scene.facts}"
            for scene in self.scenes
        ]
        return [*told, f"  => {self.why}"]


def story_of(protocol: Protocol, walked: Walk) -> Story:
    """The story of a walk's fault.

    Raises:
        ValueError: The walk has none.
    """
    fault = walked.fault
    if fault is None:
        raise ValueError("nothing went wrong, so there is no story")
    goals = [walked.worlds[number] for number in fault.path[1:]]
    protocol.gather = in_place
    try:
        teller = _Teller(protocol)
        for goal in goals:
            teller.tell(goal)
        if fault.last is not None:
            teller.tell(fault.last.world, what=fault.last.what)
    finally:
        protocol.gather = crowd
    return Story(fault.why, tuple(teller.scenes))


class _Teller:
    """Walks the path again with everybody in their places, and gives names."""

    def __init__(self, protocol: Protocol) -> None:
        self.scenes: list[Scene] = []
        self._protocol = protocol
        self._world = beginning(protocol.setting)
        self._at = 0
        self._named: dict[tuple[Actor, int], str] = {}
        self._count = {Actor.CALL: 0, Actor.ASKER: 0}

    def tell(self, goal: World, what: str | None = None) -> None:
        """Go on to a world; ``what`` picks among steps that lead there."""
        step = next(
            step
            for step in steps(self._protocol, self._world)
            if _gathered(step.world) == goal and what in {None, step.what}
        )
        who = self._name(step)
        self._world = step.world
        self._at += step.actor is Actor.CLOCK and not step.world.eve
        page = step.world.page
        ledger = "-" if page is None else page.state.value
        self.scenes.append(Scene(self._at, who, step.what, ledger, len(step.world.outside.facts)))

    def _name(self, step: Step) -> str:
        """Who took the step; whoever begins anew gets a new name."""
        if step.actor not in self._count:
            return _NAMES[step.actor]
        calls = step.actor is Actor.CALL
        before = (self._world.hands if calls else self._world.asking)[step.slot]
        key = (step.actor, step.slot)
        if before in {hand.IDLE, asker.IDLE} or key not in self._named:
            number = self._count[step.actor] = self._count[step.actor] + 1
            letter = ascii_uppercase[(number - 1) % len(ascii_uppercase)]
            self._named[key] = f"worker {letter}" if calls else f"reconcile {number}"
        return self._named[key]


def _gathered(world: World) -> World:
    return world._replace(hands=crowd(*world.hands), asking=crowd(*world.asking))
