"""The verdict of one run, for people and for machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import JsonValue

    from starter.demo.application import Account
    from starter.demo.compare import Comparison

_MOST_FAULTS: Final = 12


@dataclass(frozen=True, slots=True)
class Report:
    """What a run came to.

    Attributes:
        tasks: How many were asked for.
        comparison: The outside's books against what should be in them.
        account: What the side that made the payments says of itself.
        struck: The faults that were done, by kind.
        faults: A sentence for everything else that went wrong: tasks that did not end as they should, and
            faults that were planned and not done, without which the run proves less.
        seconds: From the first server's start to the verdict.
        folder: The run's logs.
    """

    tasks: int
    comparison: Comparison
    account: Account
    struck: Mapping[str, int]
    faults: tuple[str, ...]
    seconds: float
    folder: Path

    @property
    def ok(self) -> bool:
        """Whether every task has exactly the facts that it should have, and the run proves it."""
        return self.comparison.ok and self.account.quarantined == 0 and not self.faults

    @property
    def sentences(self) -> tuple[str, ...]:
        """Everything that is not as it should be."""
        return (*self.comparison.faults, *self.faults)

    def figures(self) -> dict[str, JsonValue]:
        """The numbers, by the names that ``--json`` gives them."""
        return {
            "tasks": self.tasks,
            "facts": self.comparison.facts,
            "duplicates": self.comparison.duplicates,
            "lost": self.comparison.lost,
            "refused": self.comparison.refused,
            "reconciled": self.account.reconciled,
            "fenced": self.account.fenced,
            "quarantined": self.account.quarantined,
            "seconds": round(self.seconds, 1),
            "ok": self.ok,
        }


_MEANINGS: Final = {
    "tasks": ("tasks", "asked for"),
    "facts": ("facts", "charges and refunds that the outside lists"),
    "duplicates": ("duplicates", "facts beyond one for each effect"),
    "lost": ("lost", "effects that should exist outside and do not"),
    "refused": ("refused", "declined by the outside, nothing was paid"),
    "reconciled": ("reconciled", "outcomes found by asking the outside"),
    "fenced": ("fenced late writes", "refused, and kept as evidence"),
    "quarantined": ("quarantined", "effects that wait for a person"),
    "seconds": ("seconds", "with the start of every server"),
}


def table(report: Report) -> Table:
    """The figures, each with what it counts."""
    shown = Table(
        title="What the outside says, compared with what was asked for", show_header=False
    )
    shown.add_column()
    shown.add_column(justify="right")
    shown.add_column(style="dim")
    figures = report.figures()
    for name, (label, meaning) in _MEANINGS.items():
        shown.add_row(label, str(figures[name]), meaning)
    return shown


def struck(report: Report) -> str:
    """Which faults were done, in words."""
    words = {
        "drop_reply": "answers lost after the work",
        "drop_request": "requests reset",
        "delay": "answers delayed",
        "kill": "workers killed",
        "freeze": "workers frozen and thawed",
    }
    return "Faults: " + ", ".join(f"{told} {report.struck[kind]}" for kind, told in words.items())


def complaints(report: Report) -> list[str]:
    """The first sentences of what is wrong, and how many more there are."""
    shown = list(report.sentences[:_MOST_FAULTS])
    more = len(report.sentences) - len(shown)
    return [*shown, f"... and {more} more"] if more > 0 else shown
