"""The protocol under a setting: who takes part, and by which rules. A mutant swaps one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from ascertain.ledger.model import ModelLedger
from drill.explorer.activity import Activities
from drill.explorer.asker import IDLE, Askers
from drill.explorer.book import Book
from drill.explorer.hand import PROPER, Hands
from drill.explorer.one import crowd
from drill.explorer.person import Persons

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ascertain.ports import Case
    from drill.explorer.hand import Working
    from drill.explorer.setting import Setting


def as_it_is(case: Case, _reader: str) -> Case:
    """What a reader of the ledger sees."""
    return case


@dataclass(frozen=True, slots=True)
class Rules:
    """The parts of the protocol that can be swapped; as they stand here they are the real ones."""

    ledger: Callable[..., ModelLedger] = ModelLedger
    seen: Callable[[Case, str], Case] = as_it_is
    working: Working = PROPER


REAL: Final = Rules()


class Protocol:
    """The actors of one walk, with all that they were ever asked."""

    def __init__(self, setting: Setting, rules: Rules = REAL) -> None:
        self.setting = setting
        self.truth = setting.truth
        self.book = Book(setting, rules.ledger)
        self.activities = Activities(setting, rules.seen)
        self.hands = Hands(setting, self.book, self.activities, rules.working)
        self.askers = Askers(setting, self.book, self.activities)
        self.persons = Persons(setting, self.book, self.activities)
        self.gather: Callable[..., tuple[Any, ...]] = crowd
        self.nobody = crowd(*[IDLE] * setting.scale.askers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.activities.close()
