"""What must hold in every state of the world. What must hold of every write is in ``rule``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascertain.contracts.effect import State

if TYPE_CHECKING:
    from drill.explorer.protocol import Protocol
    from drill.explorer.world import World


def excused(world: World) -> bool:
    """A person insisted and there are two facts now: the harm is done, and the walk ends here."""
    return world.overridden and len(world.outside.facts) > 1


def broken_in(protocol: Protocol, world: World) -> str | None:
    """What is wrong with a state, in one sentence; None if nothing is."""
    if world.page is not None:
        stale = protocol.book.moved_by_stale(world.page)
        if stale is not None:
            return stale
    facts = None if world.overridden else _of_facts(world)
    if protocol.setting.facts_only:
        return facts
    if sum(hand.able for hand in world.hands) > 1:
        return "two calls may leave at the same time"
    return facts or (None if world.overridden else _of_states(protocol, world))


def _of_facts(world: World) -> str | None:
    facts = len(world.outside.facts)
    if facts > 1:
        return "two facts of one effect, and nobody insisted"
    page = world.page
    if page is not None and page.proof is not None and page.proof >= facts:
        return "SETTLED, but there is no such fact"
    return None


def _of_states(protocol: Protocol, world: World) -> str | None:
    page, outside = world.page, world.outside
    open_calls = any(hand.able or hand.wire is not None for hand in world.hands)
    if world.cancelled and (open_calls or (outside.facts and not protocol.truth.shared)):
        return "the task is cancelled, and its effect can still come about"
    if page is None:
        return None
    if page.state is State.TAKEN_OVER and (open_calls or outside.adrift):
        return "a person owns it while an attempt can still act"
    if page.state in {State.CLEAR, State.REFUSED, State.SUPERSEDED}:
        if outside.facts and not protocol.truth.shared:
            return f"{page.state}, but the fact exists"
        if open_calls or outside.moving:
            return f"{page.state}, but the fact can still come about"
    return None
