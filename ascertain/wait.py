"""How long an effect waits for its next question or attempt, and from when an answer proves something.

Pure functions of its row, the semantics and the policy. Time is the ledger's clock, ``row.now``. Spread is
derived from the effect's id, so the same row always gives the same answer.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING

from ascertain.machine import Move

if TYPE_CHECKING:
    from datetime import datetime

    from ascertain.contracts.effect import EffectRow
    from ascertain.ports import Kind

NO_WAIT = timedelta(0)
# A timer that ends exactly at a limit may be read just before it.
AFTER = timedelta(milliseconds=20)

# How seldom an outside that could not be asked is asked again by one of all effects that wait for it, so that
# the notice of it ends soon after its cause.
PROBED = timedelta(seconds=15)
# How seldom a held task looks at a gate that has long been closed, and at what share of that time before.
HELD_LONGEST = timedelta(minutes=5)
_HELD_SHARE = 4


def conclusive_at(row: EffectRow, kind: Kind) -> datetime:
    """From when an empty lookup proves absence: last possible send + in flight + lag.

    Whoever had taken it over may have acted by hand until they let go of it.
    """
    last = max(row.lease_until, row.state_since) if let_go(row) else row.lease_until
    return last + kind.semantics.in_flight_max + kind.semantics.lag


def let_go(row: EffectRow) -> bool:
    """Whether a person, who may have acted by hand, was the last to move it."""
    return row.evidence.rule in {Move.RELEASE, Move.RETRY}


def quiet_at(row: EffectRow, kind: Kind) -> datetime:
    """From when nothing that was sent can take effect any more."""
    return row.lease_until + kind.semantics.in_flight_max


def spread(row: EffectRow) -> float:
    """A number in [0, 1) that differs between effects and attempts."""
    digest = hashlib.sha256(f"{row.effect_id}:{row.attempt}:{row.version}".encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32


def retry_wait(row: EffectRow, kind: Kind) -> timedelta:
    """Wait before the attempt after ``row.attempt``: doubles, is capped, and is spread over +-25 %."""
    tries = max(row.attempt - row.budget_from, 1)
    doubled: int = 2 ** min(tries - 1, 30)
    wait = min(kind.policy.retry_base * doubled, kind.policy.retry_cap)
    return wait * (0.75 + spread(row) / 2)


def ask_wait(row: EffectRow, kind: Kind, *, slower: bool = False, waiting: int = 0) -> timedelta:
    """Wait before the next question: grows with the age of the doubt, ends where absence concludes.

    A re-send is a question that spends the budget, so it waits like a retry.

    Args:
        row: The effect.
        kind: Its semantics and policy.
        slower: The last question could not be asked, or not answered.
        waiting: How many wait for an outside that could not be asked.
    """
    if kind.semantics.lookup is None:
        return retry_wait(row, kind)
    age = max(row.now - row.state_since, NO_WAIT)
    wait = min(max(kind.policy.ask_first, age if slower else age / 2), kind.policy.ask_cap)
    if waiting:
        wait = min(wait, max(kind.policy.ask_first, waiting * PROBED))
    wait = wait * (0.9 + spread(row) / 5)
    horizon = conclusive_at(row, kind) - row.now
    return min(wait, horizon + AFTER) if horizon > NO_WAIT and not slower else wait


def held_wait(closed_for: timedelta, kind: Kind) -> timedelta:
    """How long a held task waits for ``resume`` before it looks at its gate by itself.

    Args:
        closed_for: How long its gate has been closed.
        kind: Its policy.
    """
    return max(kind.policy.held_recheck, min(closed_for / _HELD_SHARE, HELD_LONGEST))


def longest_legal(kind: Kind) -> timedelta:
    """How long an effect may stand in flight or in doubt while everything is as declared.

    Its permit, its call, what the call can still bring about, until a lookup shows that, and the longest wait
    for the next question.
    """
    semantics = kind.semantics
    declared = semantics.max_duration + semantics.in_flight_max + semantics.lag
    return kind.policy.lease + declared + kind.policy.ask_cap
