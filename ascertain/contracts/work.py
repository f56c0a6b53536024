"""What the workflow hands to its activities, and what they hand back."""

from __future__ import annotations

from datetime import datetime

from ascertain.contracts.command import Command
from ascertain.contracts.directive import Directive, Unrecorded
from ascertain.contracts.effect import Effect
from ascertain.contracts.value import Value


class Work(Value):
    """One effect to perform or to reconcile.

    Attributes:
        unrecorded: An attempt's outcome that the ledger could not take when it was known.
        first: Nothing was tried before.
        withdraw: The task was cancelled: what does not exist is closed for good once that is known.
        turned_away: How often in a row nobody was found who knows the kind.
        dead_queue: A task queue from which nobody took this question. Answered from the ledger alone,
            unless the kind lives elsewhere now.
        deadline: From then on it is not begun.
    """

    effect: Effect
    withdraw: bool = False
    unrecorded: Unrecorded | None = None
    first: bool = False
    turned_away: int = 0
    dead_queue: str | None = None
    deadline: datetime | None = None


class Answer(Value):
    """The activity's one answer: what to do next."""

    directive: Directive


class Known(Value):
    """Which effects of a task the ledger knows of that may exist.

    Attributes:
        steps: Their steps' names, those of undo effects among them.
    """

    steps: tuple[str, ...] = ()


class Decision(Value):
    """A person's command for one effect.

    Attributes:
        amended: For ``amend``: the effect with the new input and its revision.
    """

    effect: Effect
    command: Command
    amended: Effect | None = None
