"""Every step that leads on from a world: one atomic action of one actor."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from drill.explorer import outside as outsides, person as persons
from drill.explorer.hand import after
from drill.explorer.one import Twin
from drill.explorer.page import later
from drill.explorer.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drill.explorer.book import Change
    from drill.explorer.hand import Hand
    from drill.explorer.protocol import Protocol


class Actor(StrEnum):
    """Who takes a step."""

    CALL = "call"
    ASKER = "asker"
    PERSON = "person"
    OUTSIDE = "outside"
    ANOTHER = "another effect"
    GATE = "gate"
    CLOCK = "clock"


class Step(NamedTuple):
    """One step, and the world after it.

    Attributes:
        slot: Its actor's place among its equals.
        broken: The rule that the step itself broke.
    """

    actor: Actor
    slot: int
    what: str
    world: World
    broken: str | None = None


def steps(protocol: Protocol, world: World) -> Iterator[Step]:
    """All steps from here. The protocol's ``gather`` says whether equals keep their places."""
    if world.eve:
        yield from _eve(protocol, world)
        yield _strike(protocol, world)
        return
    yield from _of_hands(protocol, world)
    yield from _of_askers(protocol, world)
    yield from _of_person(protocol, world)
    yield from _of_surroundings(protocol, world)
    yield _clock(protocol, world)


def _of_hands(protocol: Protocol, world: World) -> Iterator[Step]:
    page, shut, hands, asking, person, _, eve, overridden, cancelled = world
    for slot, hand in _different(hands):
        for what, me, stands, change, broken in protocol.hands.moves(
            page, shut, hand, world.outside
        ):
            raw, readers, command, stored = hands, asking, person, page
            if change is not None:
                stored = change.page
                if change.moved:
                    raw, readers, command = _after(hands, change), protocol.nobody, persons.IDLE
            raw = (*raw[:slot], me, *raw[slot + 1 :])
            after_it = World(
                stored,
                shut,
                protocol.gather(*raw),
                readers,
                command,
                stands,
                eve,
                overridden,
                cancelled,
            )
            yield Step(Actor.CALL, slot, what, after_it, broken)


def _of_askers(protocol: Protocol, world: World) -> Iterator[Step]:
    for slot, asker in _different(world.asking):
        for what, me, change, broken in protocol.askers.moves(world.page, asker, world.outside):
            after_it = _written(protocol, world, change)
            raw = (*after_it.asking[:slot], me, *after_it.asking[slot + 1 :])
            after_it = after_it._replace(asking=protocol.gather(*raw))
            yield Step(Actor.ASKER, slot, what, after_it, broken)


def _of_person(protocol: Protocol, world: World) -> Iterator[Step]:
    for what, me, change, insisted, broken, stands in protocol.persons.moves(
        world.page, world.person, world.outside
    ):
        overridden = insisted or world.overridden
        after_it = _written(protocol, world, change)._replace(
            person=me, outside=stands or world.outside, overridden=overridden
        )
        yield Step(Actor.PERSON, 0, what, after_it, broken)
    if protocol.setting.people and not world.cancelled:
        change = protocol.book.withdraw(world.page)
        after_it = _written(protocol, world, change)._replace(cancelled=change.applied)
        if change.applied:
            yield Step(Actor.PERSON, 0, "cancels the task", after_it, change.broken)


def _written(protocol: Protocol, world: World, change: Change | None) -> World:
    """The world after a write to the ledger: who held something older holds it no more."""
    if change is None:
        return world
    _, shut, hands, asking, person, outside, eve, overridden, cancelled = world
    if change.moved:
        hands = protocol.gather(*_after(hands, change))
        asking, person = protocol.nobody, persons.IDLE
    return World(change.page, shut, hands, asking, person, outside, eve, overridden, cancelled)


def _after(hands: tuple[Hand, ...], change: Change) -> tuple[Hand, ...]:
    return tuple(after(hand, change.fenced, change.reowned) for hand in hands)


def _different(members: tuple[Twin, ...]) -> Iterator[tuple[int, Twin]]:
    """The members with their places; of equals, only the first."""
    for slot, member in enumerate(members):
        if slot == 0 or members[slot - 1] is not member:
            yield slot, member


def _of_surroundings(protocol: Protocol, world: World) -> Iterator[Step]:
    for what, stands in outsides.alone(world.outside, protocol.truth, eve=False):
        yield Step(Actor.OUTSIDE, 0, what, world._replace(outside=stands))
    page = world.page
    if protocol.truth.shared and page is not None and not page.elsewhere:
        change = protocol.book.settle_elsewhere(page)
        told = f"records the same fact as its own: {change.answer}"
        yield Step(Actor.ANOTHER, 0, told, world._replace(page=change.page), change.broken)
    turned = "is opened" if world.shut else "is closed"
    yield Step(Actor.GATE, 0, turned, world._replace(shut=not world.shut))


def _clock(protocol: Protocol, world: World) -> Step:
    """The clock strikes; if something can happen only before that, there is an eve."""
    urgent = 1 in (*world.outside.adrift, world.outside.by_hand) or any(
        protocol.hands.urgent(world.page, hand, world.outside) for hand in world.hands
    )
    if urgent:
        return Step(Actor.CLOCK, 0, "is about to strike", world._replace(eve=True))
    return _strike(protocol, world)


def _eve(protocol: Protocol, world: World) -> Iterator[Step]:
    for slot, hand in _different(world.hands):
        for what, me, stands, _, broken in protocol.hands.urgent(world.page, hand, world.outside):
            raw = (*world.hands[:slot], me, *world.hands[slot + 1 :])
            after_it = world._replace(hands=protocol.gather(*raw), outside=stands)
            yield Step(Actor.CALL, slot, what, after_it, broken)
    for what, stands in outsides.alone(world.outside, protocol.truth, eve=True):
        yield Step(Actor.OUTSIDE, 0, what, world._replace(outside=stands))


def _strike(protocol: Protocol, world: World) -> Step:
    page = world.page
    after_it = world._replace(
        page=None if page is None else later(page, protocol.truth, protocol.setting.scale.lease),
        hands=protocol.gather(*map(protocol.hands.later, world.hands)),
        outside=outsides.later(world.outside),
        eve=False,
    )
    return Step(Actor.CLOCK, 0, "strikes", after_it)
