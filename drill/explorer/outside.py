"""The outside: requests on the way, facts that become visible late, a memory of keys, jobs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from drill.explorer.activity import ABSENT, FAILED, FOUND, PENDING, SEVERAL
from drill.explorer.one import changed, one
from drill.explorer.told import Came, Result, result

if TYPE_CHECKING:
    from drill.explorer.setting import Truth

# More facts than two tell nothing new, and more requests that nobody waits for are not walked.
MOST_FACTS = 2
MOST_ADRIFT = 2


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    """What stands outside.

    Attributes:
        adrift: Requests that nobody waits for any more: ticks that each can still take effect.
        facts: For each, how many ticks an answer may still miss it.
        key: Ticks until the key is forgotten; None: nothing was sent yet.
        job: Accepted work: how many ticks an answer may still miss it.
        by_hand: What a person did there: ticks that it can still take effect; 0: it has; None: nothing.
        failed: Accepted work that came to nothing for good: how many ticks an answer may still miss it.
    """

    adrift: tuple[int, ...] = ()
    facts: tuple[int, ...] = ()
    key: int | None = None
    job: int | None = None
    failed: int | None = None
    by_hand: int | None = None

    @property
    def moving(self) -> bool:
        """Whether something may still take effect that no attempt holds any more."""
        return bool(self.adrift or self.by_hand) or self.job is not None


def sent(outside: Outside, truth: Truth) -> Outside:
    """After a request left: the life of the key counts from the first one."""
    return changed(outside, key=truth.key) if outside.key is None else outside


def let_go(outside: Outside, left: int | None) -> Outside:
    """After somebody stopped waiting for a request."""
    if left is None:
        return outside
    return changed(outside, adrift=tuple(sorted((*outside.adrift, left))))


@cache
def landings(outside: Outside, truth: Truth, *, eve: bool) -> tuple[tuple[Result, Outside], ...]:
    """Every way in which one request can land: its answer, and the outside after it."""
    nothing = (
        (result(Came.NOT_DONE), outside),
        (result(Came.REFUSED), outside),
    )
    if truth.shared or (outside.key and outside.facts):
        return ((result(Came.SETTLED, 0), outside), *nothing)
    if outside.key and outside.job is not None:
        return ((result(Came.ACCEPTED), outside), *nothing)
    hidden = (truth.lag or 0) + eve
    made = (*outside.facts, hidden)[:MOST_FACTS]
    done = (result(Came.SETTLED, len(made) - 1), changed(outside, facts=made))
    if not truth.jobs:
        return (done, *nothing)
    accepted = (result(Came.ACCEPTED), changed(outside, job=hidden))
    return (done, accepted, *nothing)


@cache
def findings(outside: Outside, truth: Truth) -> tuple[str, ...]:
    """Everything that one lookup may answer now; nothing where it cannot be asked."""
    if truth.lag is None:
        return ()
    sure = [number for number, hidden in enumerate(outside.facts) if not hidden]
    seen = {_seen(tuple(sure))}
    for number, hidden in enumerate(outside.facts):
        if hidden:
            seen |= {_seen((number,)), _seen(tuple(sorted((*sure, number))))}
    for missed, shown in ((outside.job, PENDING), (outside.failed, FAILED)):
        if missed is not None and ABSENT in seen:
            seen = (seen if missed else seen - {ABSENT}) | {shown}
    return tuple(sorted(seen))


def _seen(numbers: tuple[int, ...]) -> str:
    if not numbers:
        return ABSENT
    return FOUND[numbers[0]] if len(numbers) == 1 else SEVERAL


@cache
def alone(outside: Outside, truth: Truth, *, eve: bool) -> tuple[tuple[str, Outside], ...]:
    """What happens outside by itself: stray requests land, jobs end."""
    moves = [
        (f"a request that nobody waits for lands: {answer.came}", after)
        for left in sorted(set(outside.adrift))
        if left == 1 or not eve
        for answer, after in landings(_without(outside, left), truth, eve=eve)
        if answer.came in {Came.SETTLED, Came.ACCEPTED}
    ]
    if outside.by_hand and (outside.by_hand == 1 or not eve):
        made = (*outside.facts, (truth.lag or 0) + eve)[:MOST_FACTS]
        done = changed(outside, by_hand=0, facts=made)
        moves.append(("what the operator did by hand takes effect", done))
    if outside.job is not None and not eve and len(outside.facts) < MOST_FACTS:
        # It is shown without a gap: as work at hand, then as what became of it.
        made = (*outside.facts, outside.job)
        failed = changed(outside, job=None, failed=outside.job)
        moves.append(("the job is done: a fact", changed(outside, job=None, facts=made)))
        moves.append(("the job fails for good", failed))
    return tuple(moves)


def _without(outside: Outside, left: int) -> Outside:
    adrift = list(outside.adrift)
    adrift.remove(left)
    return changed(outside, adrift=tuple(adrift))


@cache
def later(outside: Outside) -> Outside:
    """One tick on."""
    return one(
        Outside(
            adrift=tuple(left - 1 for left in outside.adrift if left > 1),
            facts=tuple(max(hidden - 1, 0) for hidden in outside.facts),
            key=outside.key and outside.key - 1,
            job=outside.job and outside.job - 1,
            failed=outside.failed and outside.failed - 1,
            by_hand=outside.by_hand and outside.by_hand - 1,
        )
    )
