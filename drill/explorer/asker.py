"""Who asks: the task's own reconcile, and the sweep's. What they conclude is the real activity's word."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from drill.explorer.activity import FINDINGS, FOUND, Resend
from drill.explorer.one import one
from drill.explorer.outside import findings
from drill.explorer.told import Conclusion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drill.explorer.activity import Activities, Plan
    from drill.explorer.book import Book, Change
    from drill.explorer.outside import Outside
    from drill.explorer.page import Page
    from drill.explorer.setting import Setting


class Doing(StrEnum):
    """Where an asker stands."""

    IDLE = "idle"
    ASKING = "asking"
    WRITING = "writing"


@dataclass(frozen=True, slots=True, eq=False)
class Asker:
    """One run of reconcile, and what it holds. Once the row has moved on it is as good as over.

    Attributes:
        plans: What it will write for each finding, from the row as it read it.
        plan: What it is about to write.
    """

    doing: Doing = Doing.IDLE
    plans: tuple[Plan | None, ...] = ()
    plan: Plan | None = None


IDLE: Final = one(Asker())


class Turn(NamedTuple):
    """One step of an asker."""

    what: str
    me: Asker
    change: Change | None = None
    broken: str | None = None


class Askers:
    """The steps of askers."""

    def __init__(self, setting: Setting, book: Book, activities: Activities) -> None:
        self._truth = setting.truth
        self._book = book
        self._activities = activities
        self.moves = cache(self._moves)

    def _moves(self, page: Page | None, asker: Asker, outside: Outside) -> tuple[Turn, ...]:
        """What the asker may do next."""
        if page is None:
            return ()
        match asker.doing:
            case Doing.IDLE:
                return tuple(self._read(page))
            case Doing.ASKING:
                return tuple(self._ask(asker, outside))
            case Doing.WRITING:
                return tuple(self._write(page, asker))
            case _:
                assert_never(asker.doing)

    def _read(self, page: Page) -> Iterator[Turn]:
        asks, plan = self._activities.reads(page)
        if asks:
            plans = tuple(self._activities.finds(page, found) for found in FINDINGS)
            broken = None if plan is None else "an outage of the lookup made it write"
            if any(plans):
                asking = one(Asker(Doing.ASKING, plans=plans))
                yield Turn(f"reads {page.state} and will ask", asking, None, broken)
        elif plan is not None and not isinstance(plan, Resend):
            writing = one(Asker(Doing.WRITING, plan=plan))
            yield Turn(f"reads {page.state} and will {_words(plan)}", writing)

    def _ask(self, asker: Asker, outside: Outside) -> Iterator[Turn]:
        yield Turn("dies", IDLE)
        for found in findings(outside, self._truth):
            plan = asker.plans[FINDINGS.index(found)]
            if plan is None:
                yield Turn(f"asks: {found}, which proves nothing yet", IDLE)
            else:
                writing = one(Asker(Doing.WRITING, plan=plan))
                yield Turn(f"asks: {found}, and will {_words(plan)}", writing)

    def _write(self, page: Page, asker: Asker) -> Iterator[Turn]:
        yield Turn("dies before it writes", IDLE)
        if isinstance(asker.plan, Conclusion):
            change = self._book.converge(page, asker.plan, fresh=True)
        else:
            change = self._book.fence(page, fresh=True)
        following = IDLE
        if change.taken:
            plan = self._activities.finds_taken(page, FOUND[0])
            following = one(Asker(Doing.WRITING, plan=plan)) if plan else IDLE
        what = f"writes ({_words(asker.plan)}): {change.answer}"
        yield Turn(what, following, change, change.broken)


def _words(plan: Plan | None) -> str:
    if isinstance(plan, Conclusion):
        return f"conclude {plan.state} by {plan.rule}"
    return "fence the open claim"
