"""The life of an effect: one total function over a table. No clock, no I/O.

The table is the truth: the ledger's transition trigger, the diagram in the docs and the explorer
are compared with it or drawn from it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ascertain.contracts.effect import State

if TYPE_CHECKING:
    from collections.abc import Mapping


class Actor(StrEnum):
    """Who may make a move."""

    OWNER = "owner"
    ANYONE = "anyone"
    RECONCILE = "reconcile"
    PERSON = "person"


class Move(StrEnum):
    """Every way in which an effect can go from one state to another, or renew its lease."""

    CLAIM = "claim"
    RESEND = "resend"
    RENEW = "renew"
    SETTLE = "settle"
    REFUSE = "refuse"
    ACCEPT = "accept"
    CLEAR = "clear"
    DOUBT = "doubt"
    FENCE = "fence"
    FIND = "find"
    FIND_REFUSED = "find_refused"
    FIND_PENDING = "find_pending"
    FIND_ABSENT = "find_absent"
    QUARANTINE = "quarantine"
    TAKE = "take"
    CONFIRM = "confirm"
    DENY = "deny"
    RETRY = "retry"
    ABANDON = "abandon"
    RELEASE = "release"
    SUPERSEDE = "supersede"
    WITHDRAW = "withdraw"


ACTOR: Final[Mapping[Move, Actor]] = {
    Move.CLAIM: Actor.OWNER,
    Move.RESEND: Actor.OWNER,
    Move.RENEW: Actor.OWNER,
    Move.SETTLE: Actor.OWNER,
    Move.REFUSE: Actor.OWNER,
    Move.ACCEPT: Actor.OWNER,
    Move.CLEAR: Actor.OWNER,
    Move.DOUBT: Actor.OWNER,
    Move.FENCE: Actor.ANYONE,
    Move.FIND: Actor.RECONCILE,
    Move.FIND_REFUSED: Actor.RECONCILE,
    Move.FIND_PENDING: Actor.RECONCILE,
    Move.FIND_ABSENT: Actor.RECONCILE,
    Move.QUARANTINE: Actor.RECONCILE,
    Move.TAKE: Actor.PERSON,
    Move.CONFIRM: Actor.PERSON,
    Move.DENY: Actor.PERSON,
    Move.RETRY: Actor.PERSON,
    Move.ABANDON: Actor.PERSON,
    Move.RELEASE: Actor.PERSON,
    Move.SUPERSEDE: Actor.PERSON,
    Move.WITHDRAW: Actor.PERSON,
}

# From -> to of each move. None stands for "there is no row yet".
TABLE: Final[Mapping[Move, Mapping[State | None, State]]] = {
    Move.CLAIM: {None: State.IN_FLIGHT, State.CLEAR: State.IN_FLIGHT},
    Move.RESEND: {State.UNKNOWN: State.IN_FLIGHT},
    Move.RENEW: {State.IN_FLIGHT: State.IN_FLIGHT},
    Move.SETTLE: {State.IN_FLIGHT: State.SETTLED},
    Move.REFUSE: {State.IN_FLIGHT: State.REFUSED},
    Move.ACCEPT: {State.IN_FLIGHT: State.ACCEPTED},
    Move.CLEAR: {State.IN_FLIGHT: State.CLEAR},
    Move.DOUBT: {State.IN_FLIGHT: State.UNKNOWN},
    Move.FENCE: {State.IN_FLIGHT: State.UNKNOWN},
    # From CLEAR only by a late receipt: a fact outranks an earlier proof that there was none.
    Move.FIND: {
        State.ACCEPTED: State.SETTLED,
        State.CLEAR: State.SETTLED,
        State.UNKNOWN: State.SETTLED,
        State.QUARANTINED: State.SETTLED,
    },
    Move.FIND_REFUSED: {State.ACCEPTED: State.REFUSED, State.UNKNOWN: State.REFUSED},
    Move.FIND_PENDING: {State.UNKNOWN: State.ACCEPTED},
    # Not from ACCEPTED: what the outside took and no longer knows is a contradiction for a person.
    Move.FIND_ABSENT: {State.UNKNOWN: State.CLEAR},
    Move.QUARANTINE: {
        State.ACCEPTED: State.QUARANTINED,
        State.UNKNOWN: State.QUARANTINED,
        State.CLEAR: State.QUARANTINED,
    },
    Move.TAKE: {
        State.ACCEPTED: State.TAKEN_OVER,
        State.UNKNOWN: State.TAKEN_OVER,
        State.CLEAR: State.TAKEN_OVER,
        State.QUARANTINED: State.TAKEN_OVER,
    },
    Move.CONFIRM: {State.QUARANTINED: State.SETTLED, State.TAKEN_OVER: State.SETTLED},
    Move.DENY: {State.QUARANTINED: State.CLEAR, State.TAKEN_OVER: State.CLEAR},
    Move.RETRY: {State.QUARANTINED: State.UNKNOWN, State.TAKEN_OVER: State.UNKNOWN},
    Move.ABANDON: {
        State.CLEAR: State.ABANDONED,
        State.QUARANTINED: State.ABANDONED,
        State.TAKEN_OVER: State.ABANDONED,
    },
    Move.RELEASE: {State.TAKEN_OVER: State.UNKNOWN},
    Move.SUPERSEDE: {State.CLEAR: State.SUPERSEDED},
    # Whoever cancels a task gives up what was not begun: a claim that comes later is refused.
    Move.WITHDRAW: {None: State.ABANDONED, State.CLEAR: State.ABANDONED},
}


def next_state(state: State | None, move: Move) -> State | None:
    """Where ``move`` leads from ``state``; None if it is not a legal move from there."""
    return TABLE[move].get(state)


def legal_pairs() -> frozenset[tuple[State, State]]:
    """Every (from, to) that some move allows, without moves that keep the state."""
    return frozenset(
        (start, end)
        for steps in TABLE.values()
        for start, end in steps.items()
        if start is not None and start is not end
    )
