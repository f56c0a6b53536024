"""Walk every world that can be reached, breadth first, so that the first fault has the shortest story."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drill.explorer.reach import Graph, beyond_reach
from drill.explorer.step import Actor, Step, steps
from drill.explorer.theorem import broken_in, excused
from drill.explorer.world import World, beginning

if TYPE_CHECKING:
    from collections.abc import Callable

    from drill.explorer.protocol import Protocol

PROGRESS_EVERY = 100_000


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that does not hold.

    Attributes:
        why: The rule, in one sentence.
        path: The shortest way there: numbers of worlds from the beginning.
        last: The step that broke it; None where the last world is the fault.
    """

    why: str
    path: tuple[int, ...]
    last: Step | None = None


@dataclass(slots=True)
class Walk:
    """What was walked.

    Attributes:
        worlds: In the order of their discovery; a world's index is its number.
        parents: For each, the number of the world that it was found from.
        depth: Steps from the beginning to the farthest world.
        complete: Whether every reachable world was walked.
    """

    worlds: list[World]
    parents: array[int] = field(default_factory=lambda: array("l", [-1]))
    graph: Graph = field(default_factory=Graph)
    depth: int = 0
    complete: bool = False
    fault: Fault | None = None

    def path_to(self, number: int) -> tuple[int, ...]:
        """The shortest way to a world."""
        path: list[int] = []
        while number >= 0:
            path.append(number)
            number = self.parents[number]
        return tuple(reversed(path))


def walk(
    protocol: Protocol,
    *,
    limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Walk:
    """Walk until a rule breaks, nothing new is found, or ``limit`` worlds were found.

    Args:
        protocol: Who takes part.
        limit: Most worlds; None: all.
        progress: Told now and then how many worlds were walked and found.
    """
    walked = Walk([beginning(protocol.setting)])
    known = {walked.worlds[0]: 0}
    here, level_end = 0, 1
    while here < len(walked.worlds):
        if here == level_end:
            walked.depth += 1
            level_end = len(walked.worlds)
        if limit is not None and len(walked.worlds) >= limit:
            return walked
        if not _visit(protocol, walked, known, here):
            return walked
        here += 1
        if progress is not None and here % PROGRESS_EVERY == 0:
            progress(here, len(walked.worlds))
    walked.complete = True
    walked.fault = _stranded(walked, people=protocol.setting.people)
    return walked


def _visit(protocol: Protocol, walked: Walk, known: dict[World, int], here: int) -> bool:
    """Find what one world leads to; False if a rule broke."""
    worlds, graph = walked.worlds, walked.graph
    for step in () if excused(worlds[here]) else steps(protocol, worlds[here]):
        world = step.world
        number = known.get(world)
        if number is None:
            number = known[world] = len(worlds)
            worlds.append(world)
            walked.parents.append(here)
            why = step.broken or broken_in(protocol, world)
        else:
            why = step.broken
        if why is not None:
            walked.fault = Fault(why, walked.path_to(here), step)
            return False
        graph.add(number, by_person=step.actor is Actor.PERSON)
    graph.close()
    return True


def _stranded(walked: Walk, *, people: bool) -> Fault | None:
    """The first world from which no end can be reached any more."""
    number, why = beyond_reach(walked.worlds, walked.graph, people=people)
    return None if why is None else Fault(why, walked.path_to(number))
