"""What the outside has, against what it should have: pure, and ignorant of who did it.

A comparison that cannot fail proves nothing, so everything counts against us: a second fact of one
effect, a missing one, one that nobody asked for, another amount, a refund of something else, and a
ledger that says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_SETTLED: Final = "SETTLED"
_REFUSED: Final = "REFUSED"


class What(StrEnum):
    """What kind of fact."""

    CHARGE = "charge"
    REFUND = "refund"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that really happened outside, as the outside lists it.

    Attributes:
        external_id: The outside's own id.
        effect_id: The effect that it carries in its metadata; None if it carries none.
        amount: In the currency's minor units.
        of: For a refund, the ``external_id`` of the charge that it takes back.
    """

    external_id: str
    what: What
    effect_id: str | None
    amount: int
    currency: str
    of: str | None = None


@dataclass(frozen=True, slots=True)
class Books:
    """Everything that the outside lists.

    Attributes:
        declined: The effects for which it lists a payment that it refused.
    """

    facts: tuple[Fact, ...]
    declined: frozenset[str]


@dataclass(frozen=True, slots=True)
class Due:
    """One effect that a task asks for, and whether its fact should exist.

    Attributes:
        exists: False for one that the outside refuses.
        undoes: For a refund, the effect whose charge it takes back.
    """

    effect_id: str
    task_id: str
    step: str
    what: What
    amount: int
    currency: str
    exists: bool = True
    undoes: str | None = None

    @override
    def __str__(self) -> str:
        return f"{self.task_id} {self.step} ({self.effect_id})"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What our own ledger says of an effect; ``external_id`` is the fact that it holds as proof."""

    state: str
    external_id: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the outside's books and what should be in them agree.

    Attributes:
        facts: Facts outside, duplicates and unexplained ones included.
        duplicates: Facts beyond one for each effect.
        lost: Effects that should exist, or are recorded as existing, and do not.
        refused: Effects that the outside refused and that rightly do not exist.
        faults: A sentence for everything that is not as it should be.
    """

    facts: int
    duplicates: int
    lost: int
    refused: int
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every effect has exactly the fact that it should have, and nothing else exists."""
        return not self.faults


def compare(
    dues: Sequence[Due], books: Books, recorded: Mapping[str, Recorded] | None = None
) -> Comparison:
    """Compare the outside's books with what should be in them.

    Args:
        dues: Every effect that should exist, or that the outside should have refused.
        books: What the outside lists, to its end.
        recorded: What our own ledger says, by effect; None where there is no ledger.
    """
    named = {due.effect_id: due for due in dues}
    found: dict[str, list[Fact]] = {}
    for fact in books.facts:
        if fact.effect_id is not None:
            found.setdefault(fact.effect_id, []).append(fact)
    lost = {due.effect_id for due in dues if due.exists and due.effect_id not in found}
    lost |= _vanished(books, recorded or {})
    faults = [
        *_repeated(named, found),
        *(f"lost: {named.get(effect, effect)} does not exist outside" for effect in sorted(lost)),
        *_unasked(named, books.facts),
        *_unrefused(dues, books, found),
        *_differing(named, found),
    ]
    if recorded is not None:
        faults += [*_misrecorded(dues, recorded), *_unexplained(named, recorded)]
    return Comparison(
        facts=len(books.facts),
        duplicates=sum(len(facts) - 1 for facts in found.values()),
        lost=len(lost),
        refused=sum(not due.exists and due.effect_id in books.declined for due in dues),
        faults=tuple(faults),
    )


def _vanished(books: Books, recorded: Mapping[str, Recorded]) -> set[str]:
    """Effects that our ledger holds proof of, of which the outside knows nothing."""
    known = {fact.external_id for fact in books.facts}
    return {
        effect
        for effect, record in recorded.items()
        if record.state == _SETTLED and record.external_id not in known
    }


def _repeated(named: Mapping[str, Due], found: Mapping[str, list[Fact]]) -> Iterator[str]:
    for effect, facts in found.items():
        if len(facts) > 1:
            ids = ", ".join(fact.external_id for fact in facts)
            yield f"{len(facts)} facts of one effect: {named.get(effect, effect)} exists as {ids}"


def _unasked(named: Mapping[str, Due], facts: Iterable[Fact]) -> Iterator[str]:
    for fact in facts:
        if fact.effect_id not in named:
            whose = fact.effect_id or "no effect"
            yield f"nobody asked for the {fact.what} {fact.external_id}, which carries {whose}"


def _unrefused(dues: Iterable[Due], books: Books, found: Mapping[str, list[Fact]]) -> Iterator[str]:
    for due in dues:
        if not due.exists and due.effect_id in found:
            yield f"{due} should have been refused and exists"
        elif not due.exists and due.effect_id not in books.declined:
            yield f"{due} should have been refused, and the outside was never asked"


def _differing(named: Mapping[str, Due], found: Mapping[str, list[Fact]]) -> Iterator[str]:
    for effect, facts in found.items():
        due = named.get(effect)
        if due is None:
            continue
        for fact in facts:
            if (fact.what, fact.amount, fact.currency) != (due.what, due.amount, due.currency):
                asked = f"a {due.what} of {due.amount} {due.currency}"
                seen = f"{fact.external_id} is a {fact.what} of {fact.amount} {fact.currency}"
                yield f"{due} is not what was asked for: {asked}, and {seen}"
            undone = {charge.external_id for charge in found.get(due.undoes or "", [])}
            if due.undoes is not None and fact.of not in undone:
                yield f"{due} took back {fact.of}, which is not the charge that it undoes"


def _misrecorded(dues: Iterable[Due], recorded: Mapping[str, Recorded]) -> Iterator[str]:
    for due in dues:
        record = recorded.get(due.effect_id)
        should = _SETTLED if due.exists else _REFUSED
        if record is None or record.state != should:
            stands = "nothing" if record is None else record.state
            yield f"the ledger says {stands} of {due}, and not {should}"


def _unexplained(named: Mapping[str, Due], recorded: Mapping[str, Recorded]) -> Iterator[str]:
    for effect, record in recorded.items():
        if effect not in named:
            yield f"the ledger says {record.state} of {effect}, which nobody asked for"
