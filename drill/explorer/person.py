"""The operator, through the real takeover activity: right in what he says, unless he overrides.

Where the outside can be asked he may say anything: the activity asks before it believes him. Where it
cannot be asked his word is all there is, so he is taken to have looked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from ascertain.contracts.command import Action
from ascertain.contracts.effect import State
from ascertain.machine import Move
from ascertain.policy import NEVER_INSISTED
from drill.explorer.activity import DOWN, FOUND, SEVERAL, Decided
from drill.explorer.one import changed, one
from drill.explorer.outside import findings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drill.explorer.activity import Activities
    from drill.explorer.book import Book, Change
    from drill.explorer.outside import Outside
    from drill.explorer.page import Page
    from drill.explorer.setting import Setting


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """A command on its way into the ledger. Once the row has moved on it is as good as refused.

    Attributes:
        decided: What passed every check; None: nothing is on its way.
        override: He insists against what is known.
    """

    decided: Decided | None = None
    override: bool = False


IDLE: Final = one(Person())
_NOTHING_THERE: Final = frozenset({Action.DENY, Action.AMEND})


class Turn(NamedTuple):
    """One step of the person; ``stands`` is the outside after what he did there."""

    what: str
    me: Person
    change: Change | None = None
    overridden: bool = False
    broken: str | None = None
    stands: Outside | None = None


class Persons:
    """The steps of the person."""

    def __init__(self, setting: Setting, book: Book, activities: Activities) -> None:
        self._setting = setting
        self._book = book
        self._activities = activities
        self.moves = cache(self._moves)

    def _moves(self, page: Page | None, person: Person, outside: Outside) -> tuple[Turn, ...]:
        if page is None or not self._setting.people:
            return ()
        if person.decided is None:
            return (*self._command(page, outside), *self._act(page, outside))
        return tuple(self._apply(page, person, person.decided))

    def _command(self, page: Page, outside: Outside) -> Iterator[Turn]:
        known: set[Person] = set()
        for action in Action:
            insists = self._setting.overrides and action not in NEVER_INSISTED
            for override in (False, True) if insists else (False,):
                for found, fact in self._views(action, outside, override=override):
                    decided = self._activities.commands(
                        page, found, action, override=override, fact=fact
                    )
                    if decided is None:
                        continue
                    turn = self._says(action, found, one(Person(decided, override)))
                    if turn.broken or turn.me not in known:
                        known.add(turn.me)
                        yield turn

    def _says(self, action: Action, found: str, me: Person) -> Turn:
        seen = "" if found == DOWN else f" (the lookup said: {found})"
        insisting = " and insists" if me.override else ""
        wrong = action in _NOTHING_THERE and not me.override and found in {*FOUND, SEVERAL}
        broken = "a denial was believed against what the lookup said" if wrong else None
        return Turn(f"looks, commands {action}{insisting}{seen}", me, None, broken=broken)

    def _views(
        self, action: Action, outside: Outside, *, override: bool
    ) -> Iterator[tuple[str, int | None]]:
        """What the lookup may say, and the fact that he names."""
        named = 0 if action is Action.CONFIRM else None
        if self._setting.truth.lag is not None:
            lie = action in _NOTHING_THERE and outside.by_hand is not None
            for found in () if lie and not override else findings(outside, self._setting.truth):
                yield found, named
            return
        if override or self._right(action, outside):
            yield DOWN, named

    def _right(self, action: Action, outside: Outside) -> bool:
        """Whether somebody would say this who has looked, and who knows what he did himself."""
        match action:
            case Action.CONFIRM:
                return bool(outside.facts)
            case Action.DENY | Action.AMEND:
                return not outside.facts and outside.by_hand is None
            case Action.RETRY | Action.RELEASE:
                return outside.by_hand is None
            case Action.TAKE | Action.ABANDON | Action.UNDO:
                return True
            case _:
                assert_never(action)

    def _act(self, page: Page, outside: Outside) -> Iterator[Turn]:
        """What he has taken over he may do by hand, where he sees that nothing is there or can come."""
        free = not outside.facts and not outside.moving and outside.by_hand is None
        if page.state is State.TAKEN_OVER and free:
            done = changed(outside, by_hand=self._setting.truth.in_flight)
            yield Turn("does it by hand", IDLE, stands=done)

    def _apply(self, page: Page, person: Person, decided: Decided) -> Iterator[Turn]:
        yield Turn("is cut off", IDLE)
        if decided.move is Move.SUPERSEDE:
            change = self._book.amend(page, decided.denial, decided.conclusion, fresh=True)
        else:
            change = self._book.decide(page, decided.move, decided.conclusion, fresh=True)
        overridden = person.override and change.applied
        told = f"{decided.move} reaches the ledger: {change.answer}"
        yield Turn(told, IDLE, change, overridden, change.broken)
