"""The real pure ledger, asked once for each page and each operation, and remembered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ascertain.contracts.claim import ClaimRequest, Granted, Lease, Moved, Taken
from ascertain.ledger.model import ModelLedger
from ascertain.machine import ACTOR, TABLE, Actor, Move
from drill.explorer.page import (
    ANOTHER,
    EFFECT,
    FINGERPRINT,
    LEASE_VERSION,
    NOBODY,
    NOW,
    PERSON,
    STRANGER,
    VERSION,
    memory_of,
    page_of,
)
from drill.explorer.rule import Write, broken_by
from drill.explorer.told import Came, Conclusion, result

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from datetime import datetime

    from ascertain.contracts.claim import ClaimAnswer, Conflict, Paused, Written
    from ascertain.ledger.memory import Memory
    from drill.explorer.page import Page
    from drill.explorer.setting import Setting
    from drill.explorer.told import Result

Answered = TypeVar("Answered")

OWNER: Final = "this call"


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What one operation came to.

    Attributes:
        answer: The answer's type, in small letters.
        moved: The version was raised: who holds an older one is out of date.
        fenced: The lease version was raised.
        reowned: The claim has another owner now.
        broken: The rule that it broke.
    """

    page: Page | None
    answer: str
    moved: bool = False
    fenced: bool = False
    reowned: bool = False
    broken: str | None = None

    @property
    def granted(self) -> bool:
        """Whether the caller may call."""
        return self.answer == Granted.__name__.lower()

    @property
    def applied(self) -> bool:
        """Whether the write was applied."""
        return self.answer == Moved.__name__.lower()

    @property
    def taken(self) -> bool:
        """Whether the fact proves another effect already."""
        return self.answer == Taken.__name__.lower()


class Book:
    """The ledger's operations on pages. ``fresh``: the caller's version, or lease, is the row's."""

    def __init__(self, setting: Setting, ledger: Callable[..., ModelLedger] = ModelLedger) -> None:
        self._setting = setting
        self._ledger = ledger
        self.claim = cache(self._claim)
        self.record = cache(self._record)
        self.renew = cache(self._renew)
        self.fence = cache(self._fence)
        self.converge = cache(self._converge)
        self.decide = cache(self._decide)
        self.amend = cache(self._amend)
        self.withdraw = cache(self._withdraw)
        self.settle_elsewhere = cache(self._settle_elsewhere)
        self.moved_by_stale = cache(self._moved_by_stale)

    def _claim(self, page: Page | None, *, shut: bool, mine: bool, resend: bool) -> Change:
        setting = self._setting
        request = ClaimRequest(
            effect=EFFECT,
            fingerprint=FINGERPRINT,
            frozen=b"bytes",
            owner=OWNER,
            lease=setting.policy.lease,
            budget=setting.policy.budget,
            resend_for=setting.semantics.resend_for,
            resend=resend,
        )
        owner = OWNER if mine else NOBODY
        closed, opening = (
            self._asked(
                self._write(memory_of(page, shut=shut, opening=ramps, owner=owner), shut=shut),
                lambda ledger: ledger.claim(request),
            )
            for ramps in (False, True)
        )
        return _alike(closed, opening)

    def _record(self, page: Page, heard: Result, *, fresh: bool) -> Change:
        before = memory_of(page)
        write = self._write(before, stale=not fresh, receipt=heard.came is Came.SETTLED)
        lease, outcome = _lease(fresh=fresh), heard.outcome()
        return self._asked(write, lambda ledger: ledger.record(lease, outcome))

    def _renew(self, page: Page, *, shut: bool, fresh: bool) -> Change:
        lease, length = _lease(fresh=fresh), self._setting.policy.lease
        closed, opening = (
            self._asked(
                self._write(memory_of(page, shut=shut, opening=ramps), shut=shut, stale=not fresh),
                lambda ledger: ledger.renew(lease, length),
            )
            for ramps in (False, True)
        )
        return _alike(closed, opening)

    def _fence(self, page: Page, *, fresh: bool) -> Change:
        before, version = memory_of(page), _version(fresh=fresh)
        write = self._write(before, stale=not fresh)
        return self._asked(write, lambda ledger: ledger.fence(EFFECT.effect_id, version, "asker"))

    def _converge(self, page: Page, conclusion: Conclusion, *, fresh: bool) -> Change:
        before, version = memory_of(page), _version(fresh=fresh)
        verdict = conclusion.verdict()
        return self._asked(
            self._write(before, stale=not fresh),
            lambda ledger: ledger.converge(EFFECT.effect_id, version, verdict, "asker"),
        )

    def _decide(
        self, page: Page, move: Move, conclusion: Conclusion, *, fresh: bool, by: str = PERSON
    ) -> Change:
        before, version = memory_of(page), _version(fresh=fresh)
        verdict = conclusion.verdict()
        foreign = page.taken and by != PERSON
        return self._asked(
            self._write(before, stale=foreign or not fresh, person=True),
            lambda ledger: ledger.decide(EFFECT.effect_id, version, move, verdict, by),
        )

    def _amend(
        self, page: Page, denial: Conclusion | None, conclusion: Conclusion, *, fresh: bool
    ) -> Change:
        before, version = memory_of(page), _version(fresh=fresh)
        denied = None if denial is None else denial.verdict()
        verdict = conclusion.verdict()
        return self._asked(
            replace(self._write(before, stale=not fresh, person=True), denied=denial is not None),
            lambda ledger: ledger.amend(EFFECT.effect_id, version, denied, verdict, PERSON),
        )

    def _withdraw(self, page: Page | None) -> Change:
        write = self._write(memory_of(page), person=True)
        return self._asked(write, lambda ledger: ledger.withdraw(EFFECT, FINGERPRINT, "asker"))

    def _settle_elsewhere(self, page: Page) -> Change:
        before = memory_of(page, rival=True)
        lease = Lease(ANOTHER, NOBODY, LEASE_VERSION, attempt=1)
        outcome = result(Came.SETTLED, 0).outcome()
        return self._asked(self._write(before), lambda ledger: ledger.record(lease, outcome))

    def _write(
        self,
        before: Memory,
        *,
        shut: bool = False,
        stale: bool = False,
        person: bool = False,
        receipt: bool = False,
    ) -> Write:
        budget = self._setting.policy.budget
        return Write(before, before, budget, shut, stale, person, receipt)

    def _asked(
        self,
        write: Write,
        ask: Callable[
            [ModelLedger], Coroutine[Any, Any, ClaimAnswer | Written | Conflict | Paused]
        ],
    ) -> Change:
        ledger = self._ledger(_now, write.before)
        answer = at_once(ask(ledger))
        write = replace(write, after=ledger.snapshot())
        was, now = write.was, write.after.rows.get(EFFECT.effect_id)
        if was is None or now is None:
            moved = fenced = reowned = False
        else:
            moved = was.version != now.version
            fenced = was.lease_version != now.lease_version
            reowned = was.lease_owner != now.lease_owner
        page, told = page_of(write.after), type(answer).__name__.lower()
        return Change(page, told, moved, fenced, reowned, broken_by(write))

    def _moved_by_stale(self, page: Page) -> str | None:
        """Whether any write that names something old, or comes from the wrong person, moves the row.

        If none does, an actor who holds something old is like one who holds nothing.
        """
        for who, change in self._stale_writes(page):
            if change.broken:
                return f"{who}: {change.broken}"
        return None

    def _stale_writes(self, page: Page) -> Iterator[tuple[str, Change]]:
        for came in Came:
            recorded = self.record(page, result(came, 0), fresh=False)
            yield f"the owner of an old lease records {came}", recorded
        yield "the owner of an old lease renews it", self.renew(page, shut=False, fresh=False)
        yield "somebody fences an old version", self.fence(page, fresh=False)
        for move, leads in TABLE.items():
            for state in sorted(set(leads.values())):
                conclusion = Conclusion(state, move.value, 0 if move in _PROVING else None)
                yield from self._stale_moves(page, move, conclusion)

    def _stale_moves(
        self, page: Page, move: Move, conclusion: Conclusion
    ) -> Iterator[tuple[str, Change]]:
        if ACTOR[move] is Actor.RECONCILE:
            what = f"somebody concludes {conclusion.state} from an old version"
            yield what, self.converge(page, conclusion, fresh=False)
        elif ACTOR[move] is Actor.PERSON:
            what = f"the operator says {move} of an old version"
            yield what, self.decide(page, move, conclusion, fresh=False)
            if page.taken:
                foreign = self.decide(page, move, conclusion, fresh=True, by=STRANGER)
                yield f"somebody who did not take it over says {move}", foreign


_PROVING: Final = frozenset({Move.FIND, Move.CONFIRM})


def _alike(plain: Change, opening: Change) -> Change:
    """What a gate comes to, whether it is closed, or open, for all or for this effect's turn."""
    broken = plain.broken or opening.broken
    if broken is None and (plain.page, plain.answer) != (opening.page, opening.answer):
        broken = "a gate that opens little by little treats the effect unlike one that is closed, or open"
    return replace(plain, broken=broken)


def at_once(work: Coroutine[Any, Any, Answered]) -> Answered:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        answered: Answered = end.value
        return answered
    raise RuntimeError("the model ledger waited")


def _now() -> datetime:
    return NOW


def _version(*, fresh: bool) -> int:
    return VERSION if fresh else VERSION - 1


def _lease(*, fresh: bool) -> Lease:
    version = LEASE_VERSION if fresh else LEASE_VERSION - 1
    return Lease(EFFECT.effect_id, OWNER, version, attempt=1)
