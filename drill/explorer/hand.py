"""A call at hand: claim, permit, wire, record. What a worker does between its writes.

The order of these steps is the one thing that is told a second time, after ``activities.dispatch`` and
``activities.attempt``: a walk must be able to stop between any two of them. A test runs the real
activity beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from ascertain.contracts.effect import RESTS_ON_KEY, State
from drill.explorer.activity import Resend
from drill.explorer.one import changed, one
from drill.explorer.outside import MOST_ADRIFT, Outside, landings, let_go, sent
from drill.explorer.told import Came, Conclusion, Result, of_effect, result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drill.explorer.activity import Activities
    from drill.explorer.book import Book, Change
    from drill.explorer.page import Page
    from drill.explorer.setting import Setting


class At(StrEnum):
    """Where a call stands."""

    IDLE = "idle"
    UNANSWERED = "unanswered"
    CLEARING = "clearing"
    GRANTED = "granted"
    CHECKED = "checked"
    SENT = "sent"
    RECORDING = "recording"
    LEFTOVER = "leftover"


@dataclass(frozen=True, slots=True, eq=False)
class Hand:
    """One call, and what it holds.

    Attributes:
        left: Ticks for which it may still send, by its own clock.
        holds: Its lease version is the row's. While the claim's answer is lost: the row's owner is it.
        resend: It asks for its claim in order to ask by sending again.
        rests: The rule of its claim, where that rests on the key.
        wire: Its request on the wire: ticks that it can still take effect.
        heard: What it is about to record.
        conclusion: What it is about to write of a claim whose answer never came.
    """

    at: At = At.IDLE
    left: int = 0
    holds: bool = False
    resend: bool = False
    rests: str = ""
    wire: int | None = None
    heard: Result | None = None
    conclusion: Conclusion | None = None

    @property
    def able(self) -> bool:
        """Whether it can still send."""
        return self.left > 0 and self.at in _BEFORE_THE_WIRE


_BEFORE_THE_WIRE: Final = frozenset({At.GRANTED, At.CHECKED, At.LEFTOVER})
IDLE: Final = one(Hand())


@dataclass(frozen=True, slots=True)
class Working:
    """How a worker treats its permit and its answers; a mutant takes one of these away.

    Attributes:
        from_first_ask: The permit's end counts from before the claim was first asked for.
        once: It is good for one call.
        ends: It ends with the lease.
        ends_with_attempt: It ends with its attempt.
        says: What an attempt's result says of the effect.
    """

    from_first_ask: bool = True
    once: bool = True
    ends: bool = True
    ends_with_attempt: bool = True
    says: Callable[..., Result] = of_effect


PROPER: Final = Working()


class Turn(NamedTuple):
    """One step of a call: what it does, and what stands after it."""

    what: str
    me: Hand
    outside: Outside
    change: Change | None = None
    broken: str | None = None


@cache
def after(hand: Hand, fenced: bool, reowned: bool) -> Hand:  # noqa: FBT001  # bits of a key
    """The call after somebody else moved the row."""
    if hand.at is At.CLEARING:
        return IDLE
    lost = reowned if hand.at is At.UNANSWERED else fenced
    return rested(changed(hand, holds=False)) if lost and hand.holds else hand


def rested(hand: Hand) -> Hand:
    """A call that holds nothing any more that could change anything is over.

    That no stale write changes anything is checked on every page, see ``Book.moved_by_stale``.
    """
    if hand.holds or hand.able or hand.conclusion or hand.wire is not None or hand.left > 0:
        return hand
    receipt = hand.heard is not None and hand.heard.came is Came.SETTLED
    return hand if receipt else IDLE


class Hands:
    """The steps of calls."""

    def __init__(
        self, setting: Setting, book: Book, activities: Activities, working: Working
    ) -> None:
        self._setting = setting
        self._truth = setting.truth
        self._book = book
        self._activities = activities
        self._working = working
        self.moves = cache(self._moves)
        self.urgent = cache(self._urgent)
        self.later = cache(self._later)

    def _moves(
        self,
        page: Page | None,
        shut: bool,  # noqa: FBT001  # part of a key
        hand: Hand,
        outside: Outside,
    ) -> tuple[Turn, ...]:
        """What the call may do next."""
        if hand.at is At.IDLE:
            return tuple(self._begin(page, outside, shut=shut))
        if page is None:
            raise ValueError("a call is at hand, but no claim was ever granted")
        match hand.at:
            case At.UNANSWERED:
                return tuple(self._ask_again(page, hand, outside, shut=shut))
            case At.CLEARING:
                return tuple(self._clear(page, hand, outside))
            case At.GRANTED:
                return tuple(self._at_the_wire(page, hand, outside, shut=shut))
            case At.CHECKED | At.LEFTOVER:
                return tuple(self._last_line(page, hand, outside))
            case At.SENT:
                return tuple(self._wait(page, hand, outside))
            case At.RECORDING:
                return tuple(self._record(page, hand, outside))
            case _:
                assert_never(hand.at)

    def _begin(self, page: Page | None, outside: Outside, *, shut: bool) -> Iterator[Turn]:
        yield from self._claim(page, IDLE, outside, shut=shut)
        if page is not None and isinstance(self._activities.reads(page)[1], Resend):
            yield from self._claim(page, one(Hand(resend=True)), outside, shut=shut)

    def _claim(
        self, page: Page | None, hand: Hand, outside: Outside, *, shut: bool
    ) -> Iterator[Turn]:
        again = hand.at is At.UNANSWERED
        how = "asks for its claim again" if again else "asks for a claim"
        if hand.resend:
            how += " to send the same bytes under the same key"
        change = self._book.claim(page, shut=shut, mine=hand.holds, resend=hand.resend)
        if not change.granted or change.page is None:
            if again or change.page is not page or change.broken:
                me = self._unused(change.page, hand)
                yield Turn(f"{how}: {change.answer}", me, outside, change, change.broken)
            return
        left = hand.left if again and self._working.from_first_ask else self._setting.scale.lease
        rests = change.page.rule if change.page.rule in RESTS_ON_KEY else ""
        granted = rested(Hand(At.GRANTED, left, holds=True, rests=rests))
        yield Turn(f"{how}: granted", one(granted), outside, change, change.broken)
        if change.page is not page:
            waiting = one(Hand(At.UNANSWERED, left, holds=True, resend=hand.resend))
            yield Turn(f"{how}: granted, but the answer is lost", waiting, outside, change)

    def _unused(self, page: Page | None, hand: Hand) -> Hand:
        """The call after its claim was not granted. It may know that its own was never used."""
        if page is None or page.state is not State.UNKNOWN or hand.resend or not hand.holds:
            return IDLE
        conclusion = self._activities.was_unused(page)
        return one(Hand(At.CLEARING, conclusion=conclusion)) if conclusion else IDLE

    def _clear(self, page: Page, hand: Hand, outside: Outside) -> Iterator[Turn]:
        yield Turn("dies", IDLE, outside)
        if hand.conclusion is not None:
            change = self._book.converge(page, hand.conclusion, fresh=True)
            what = f"writes that its claim was never used: {change.answer}"
            yield Turn(what, IDLE, outside, change, change.broken)

    def _ask_again(self, page: Page, hand: Hand, outside: Outside, *, shut: bool) -> Iterator[Turn]:
        yield from self._claim(page, hand, outside, shut=shut)
        yield Turn("dies", IDLE, outside)

    def _at_the_wire(
        self, page: Page, hand: Hand, outside: Outside, *, shut: bool
    ) -> Iterator[Turn]:
        if hand.left > 0:
            yield self._leave(page, hand, outside, eve=False)
        yield self._hears(hand, outside, Came.NOT_DONE, "its call never leaves")
        yield self._hears(
            hand, outside, Came.UNKNOWN, "fails before its call leaves, nobody knows how"
        )
        yield Turn("dies before its call leaves", IDLE, outside)
        if self._setting.renews:
            change = self._book.renew(page, shut=shut, fresh=hand.holds)
            if change.applied:
                renewed = changed(hand, left=self._setting.scale.lease)
                yield Turn("renews its permit", renewed, outside, change, change.broken)
                lost = self._hears(hand, outside, Came.UNKNOWN, "")
                yield Turn("renews its permit, but the answer is lost", lost.me, outside, change)

    def _last_line(self, page: Page, hand: Hand, outside: Outside) -> Iterator[Turn]:
        """Behind the check, or left behind by an attempt that is over."""
        yield Turn("dies before its call leaves", IDLE, outside)
        if hand.left > 0:
            yield self._send(page, hand, outside, eve=False)

    def _leave(self, page: Page, hand: Hand, outside: Outside, *, eve: bool) -> Turn:
        if self._setting.pause == 0:
            return self._send(page, hand, outside, eve=eve)
        checked = changed(hand, at=At.CHECKED, left=self._setting.pause + eve)
        return Turn("checks its permit, which is good, and stands still", checked, outside)

    def _send(self, page: Page, hand: Hand, outside: Outside, *, eve: bool) -> Turn:
        wire = self._truth.in_flight + eve
        left = 0 if self._working.once else hand.left
        calling = one(Hand(At.SENT, left, hand.holds, rests=hand.rests, wire=wire))
        gone = sent(outside, self._truth)
        if hand.at is At.LEFTOVER:
            calling, gone = IDLE, let_go(gone, wire)
        covered = hand.holds and page.state is State.IN_FLIGHT and page.lease > 0
        broken = None
        if not covered and not self._setting.facts_only:
            broken = "a call left that no open claim permits"
        return Turn("its call leaves", calling, gone, None, broken)

    def _wait(self, page: Page, hand: Hand, outside: Outside) -> Iterator[Turn]:
        if hand.wire is not None:
            yield from self._land(hand, outside, eve=False)
            if len(outside.adrift) >= MOST_ADRIFT:
                return
        adrift = let_go(outside, hand.wire)
        yield self._hears(hand, adrift, Came.UNKNOWN, "gives up waiting for the answer")
        yield Turn("dies while it waits", IDLE, adrift)
        if hand.left > 0:
            yield self._send(page, changed(hand, at=At.GRANTED), adrift, eve=False)

    def _land(self, hand: Hand, outside: Outside, *, eve: bool) -> Iterator[Turn]:
        landed = changed(hand, wire=None)
        for answer, stands in landings(outside, self._truth, eve=eve):
            heard = self._working.says(answer, rests=hand.rests)
            telling = rested(one(Hand(At.RECORDING, holds=hand.holds, heard=heard)))
            yield Turn(f"its call lands, and it hears: {answer.came}", telling, stands)
            if stands is not outside:
                what = f"its call lands ({answer.came}), but the answer is lost"
                yield Turn(what, rested(landed), stands)

    def _hears(self, hand: Hand, outside: Outside, came: Came, what: str) -> Turn:
        heard = self._working.says(result(came), rests=hand.rests)
        over = self._working.ends_with_attempt or hand.at is At.SENT
        left = 0 if over else hand.left
        telling = one(Hand(At.RECORDING, left, hand.holds, heard=heard))
        return Turn(what, rested(telling), outside)

    def _record(self, page: Page, hand: Hand, outside: Outside) -> Iterator[Turn]:
        yield Turn("dies before it records", IDLE, outside)
        if hand.heard is None:
            raise ValueError("there is nothing to record")
        change = self._book.record(page, hand.heard, fresh=hand.holds)
        told = f"records {hand.heard.came}: {change.answer}"
        if change.taken:
            doubting = changed(hand, heard=result(Came.UNKNOWN, error="fact_taken"))
            yield Turn(told, doubting, outside, change, change.broken)
            return
        left = one(Hand(At.LEFTOVER, hand.left, hand.holds)) if hand.left else IDLE
        yield Turn(told, left, outside, change, change.broken)
        if change.page is not page:
            kept = after(hand, change.fenced, change.reowned)
            yield Turn(f"{told}, but the answer is lost", kept, outside, change)

    def _urgent(self, page: Page, hand: Hand, outside: Outside) -> tuple[Turn, ...]:
        """What can happen just before the clock strikes, and not after."""
        if hand.wire == 1:
            return tuple(self._land(hand, outside, eve=True))
        if hand.able and hand.left == 1:
            step = self._leave if hand.at is At.GRANTED else self._send
            return (step(page, hand, outside, eve=True),)
        return ()

    def _later(self, hand: Hand) -> Hand:
        """The call one tick on."""
        endless = not self._working.ends and hand.at is At.GRANTED
        left = hand.left if endless else max(hand.left - 1, 0)
        wire = None if hand.wire in {None, 1} else (hand.wire or 0) - 1
        return rested(changed(hand, left=left, wire=wire))
