"""Whether an end stays within reach of every world: seen backwards over the finished graph."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from ascertain.contracts.effect import TERMINAL, State
from drill.explorer.theorem import excused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drill.explorer.world import World

# Where automation may rest: a person is needed now, or at work.
_REST: Final = TERMINAL | {State.QUARANTINED, State.TAKEN_OVER}


class Graph:
    """The steps between worlds, by number; worlds are closed in order."""

    def __init__(self) -> None:
        self._ends = array("q", [0])
        self._targets = array("l")
        self._by_person = bytearray()

    def __len__(self) -> int:
        """How many steps there are."""
        return len(self._targets)

    def add(self, target: int, *, by_person: bool) -> None:
        """A step from the world that is open."""
        self._targets.append(target)
        self._by_person.append(by_person)

    def close(self) -> None:
        """The open world has no more steps."""
        self._ends.append(len(self._targets))

    def leads(self, number: int, *, people: bool) -> array[int]:
        """Where the steps of a world lead, with or without those of the person."""
        start, end = self._ends[number], self._ends[number + 1]
        targets = self._targets[start:end]
        if people or 1 not in self._by_person[start:end]:
            return targets
        kept = (targets[i] for i in range(end - start) if not self._by_person[start + i])
        return array("l", kept)


def beyond_reach(worlds: Sequence[World], graph: Graph, *, people: bool) -> tuple[int, str | None]:
    """The first world that can reach no end, and which end; (0, None) if there is none.

    Args:
        worlds: By number.
        graph: Every step of every world.
        people: Whether a person takes part, without whom automation may rest in quarantine for ever.
    """
    for good, with_person, why in (
        (_final, True, "no final state can be reached any more"),
        (_at_rest, False, "without a person, no final state and no quarantine can be reached"),
        (_believed, False, "a receipt that came too late cannot settle it without a person"),
    ):
        if with_person and not people:
            continue
        lost = _unreached(worlds, graph, good, people=with_person)
        if lost is not None:
            return lost, why
    return 0, None


def _unreached(
    worlds: Sequence[World], graph: Graph, good: Callable[[World], bool], *, people: bool
) -> int | None:
    alive = bytearray(excused(world) or good(world) for world in worlds)
    waiting = [number for number in reversed(range(len(worlds))) if not alive[number]]
    while waiting:
        still: list[int] = []
        for number in waiting:
            if any(alive[target] for target in graph.leads(number, people=people)):
                alive[number] = 1
            else:
                still.append(number)
        if len(still) == len(waiting):
            return min(still)
        waiting = still
    return None


def _final(world: World) -> bool:
    return world.page is not None and world.page.state in TERMINAL


def _at_rest(world: World) -> bool:
    return world.page is not None and world.page.state in _REST


def _believed(world: World) -> bool:
    """A late receipt that proves nothing else settles the effect, unless a person owns or ended it."""
    page = world.page
    if page is None or page.late is None or page.elsewhere:
        return True
    return page.state in TERMINAL or page.state is State.TAKEN_OVER
