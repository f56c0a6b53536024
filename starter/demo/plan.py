"""Which fault strikes which effect: drawn once from a seed, so that a run can be repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ascertain.testing.fault import Delay, DropReply, DropRequest
from starter.demo.compare import What

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ascertain.testing.fault import Fault
    from starter.demo.compare import Due

DROPPED: Final = 0.10
RESET: Final = 0.05
DELAYED: Final = 0.05

# An answer gets lost in more than one way: the connection breaks, ends in good order, or says nothing.
_LOSSES: Final = (DropReply("reset"), DropReply("close"), DropReply("silence"))
_LONGEST_DELAY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The faults of one run, by effect.

    Attributes:
        faults: What the network does to the effect's first request.
        kill: Charges of the first wave; at the first one that the first worker makes it is killed.
        freeze: Charges of the second wave; at the first one that the other worker makes it is frozen.
    """

    faults: Mapping[str, Fault]
    kill: tuple[Due, ...]
    freeze: tuple[Due, ...]


def draw(first: Sequence[Due], second: Sequence[Due], seed: int) -> FaultPlan:
    """Draw the faults.

    At least one of each kind strikes, however few effects there are; where there are refunds, the answer
    to one of them is lost.

    Args:
        first: The effects of the tasks that are submitted at once.
        second: The effects of those that are submitted once the killed worker has a successor.
        seed: The same seed and the same effects give the same faults.
    """
    dice = random.Random(seed)  # noqa: S311 - repeatable faults, nothing secret
    dues = [*first, *second]
    mixed = dice.sample(dues, len(dues))
    refund = next((due for due in mixed if not _is_charge(due)), None)
    order = sorted(mixed, key=lambda due: due is not refund)
    faults: dict[str, Fault] = {}
    for share, kind in ((DROPPED, "drop"), (RESET, "reset"), (DELAYED, "delay")):
        for number in range(max(1, round(share * len(dues)))):
            faults[order[len(faults)].effect_id] = _fault(kind, number, dice)
    return FaultPlan(faults, _strikable(first, faults), _strikable(second, faults))


def _is_charge(due: Due) -> bool:
    return due.what is What.CHARGE


def _fault(kind: str, number: int, dice: random.Random) -> Fault:
    match kind:
        case "drop":
            return _LOSSES[number % len(_LOSSES)]
        case "reset":
            return DropRequest("reset")
        case _:
            return Delay(reply_s=round(dice.uniform(_LONGEST_DELAY_S / 4, _LONGEST_DELAY_S), 2))


def _strikable(dues: Sequence[Due], faults: Mapping[str, Fault]) -> tuple[Due, ...]:
    """Charges that will exist and meet no other fault, but for the first few: let the work begin."""
    fit = [due for due in dues if _is_charge(due) and due.exists and due.effect_id not in faults]
    return tuple(fit[len(fit) // 4 :])
