"""What a chaos run is going to do: drawn from its seed alone, before anything runs."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from drill.deployment import amount_of
from drill.kind import OutsideClass, Route
from drill.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PARTITIONS: Final = tuple(f"account-{number}" for number in range(6))
SEATS: Final = 3
TASKS_PER_S: Final = 2.0
# Nothing is begun in the last part of a run, so that what was begun meets its faults within it.
_QUIET_S: Final = 2.0


class Blow(StrEnum):
    """What happens to a process, a gate or a task."""

    WORKER_KILLED = "worker killed"
    WORKER_FROZEN = "worker frozen"
    LEDGER_KILLED = "ledger killed"
    SERVER_KILLED = "Temporal killed"
    GATE_SWITCHED = "gate switched"
    TAKEN_OVER = "taken over"
    DELIVERED_AGAIN = "message delivered again"
    TERMINATED = "workflow terminated"


# Mean seconds between two blows of a kind.
_EVERY_S: Final[Mapping[Blow, float]] = {
    Blow.WORKER_KILLED: 9,
    Blow.WORKER_FROZEN: 9,
    Blow.LEDGER_KILLED: 75,
    Blow.SERVER_KILLED: 150,
    Blow.GATE_SWITCHED: 15,
    Blow.TAKEN_OVER: 8,
    Blow.DELIVERED_AGAIN: 5,
    Blow.TERMINATED: 10,
}
_LASTS_S: Final[Mapping[Blow, tuple[float, float]]] = {
    Blow.WORKER_KILLED: (0, 3),
    Blow.WORKER_FROZEN: (0.5, 15),
    Blow.LEDGER_KILLED: (0, 2),
    Blow.SERVER_KILLED: (0, 2),
    Blow.GATE_SWITCHED: (1, 6),
}


@dataclass(frozen=True, slots=True)
class Errand:
    """One task that is asked for.

    Attributes:
        at_s: Seconds since the start.
        troubles: What becomes of the answers to its first requests, in order.
        lookups_down: How many of its first lookups are answered with 503.
    """

    at_s: float
    number: int
    outside: OutsideClass
    route: Route
    partition: str
    troubles: tuple[Trouble, ...]
    lookups_down: int

    @property
    def task_id(self) -> str:
        """Of its task."""
        return f"chaos-{self.number:06}"

    @property
    def amount(self) -> int:
        """Tells its fact from all others."""
        return amount_of(self.task_id)


@dataclass(frozen=True, slots=True)
class Event:
    """One blow.

    Attributes:
        lasts_s: Until the worker is started again or thawed, the server started, the gate opened.
        choice: 0 to 1: which worker, gate or task of those there are.
    """

    at_s: float
    blow: Blow
    lasts_s: float
    choice: float


@dataclass(frozen=True, slots=True)
class ChaosPlan:
    """The whole run. The same seed and length give the same plan."""

    seed: int
    seconds: float
    errands: tuple[Errand, ...]
    events: tuple[Event, ...]


def draw(seed: int, seconds: float, *, tasks_per_s: float = TASKS_PER_S) -> ChaosPlan:
    """Draw a plan.

    Args:
        seed: Any number.
        seconds: How long faults strike.
        tasks_per_s: How many tasks are asked for, on average.
    """
    errands = tuple(_errands(seed, seconds - _QUIET_S, tasks_per_s))
    events = [event for blow in Blow for event in _events(seed, seconds - _QUIET_S, blow)]
    return ChaosPlan(seed, seconds, errands, tuple(sorted(events, key=lambda event: event.at_s)))


def _errands(seed: int, until_s: float, tasks_per_s: float) -> Iterator[Errand]:
    dice = random.Random(f"{seed} tasks")  # noqa: S311 - repeatable, nothing secret
    at_s, number = dice.expovariate(tasks_per_s), 0
    while at_s < until_s:
        outside = dice.choice(list(OutsideClass))
        yield Errand(
            at_s,
            number,
            outside,
            dice.choice(list(Route)),
            dice.choice(PARTITIONS),
            tuple(dice.choices(list(Trouble), k=_how_many(dice, outside))),
            dice.choice((0, 0, 1, 2)) if outside.asked else 0,
        )
        at_s, number = at_s + dice.expovariate(tasks_per_s), number + 1


def _how_many(dice: random.Random, outside: OutsideClass) -> int:
    """Troubles of one task. Where nothing can be asked each one costs a person's attention."""
    return dice.choice((0, 1) if outside is OutsideClass.NEITHER else (0, 1, 1, 2))


def _events(seed: int, until_s: float, blow: Blow) -> Iterator[Event]:
    dice = random.Random(f"{seed} {blow}")  # noqa: S311 - repeatable, nothing secret
    at_s = dice.expovariate(1 / _EVERY_S[blow])
    while at_s < until_s:
        shortest, longest = _LASTS_S.get(blow, (0, 0))
        yield Event(at_s, blow, dice.uniform(shortest, longest), dice.random())
        at_s += dice.expovariate(1 / _EVERY_S[blow])
