"""``ascertain list --quarantined``: what waits for a person, by its cause."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ascertain.cli import listing, output, place, wording
from ascertain.cli.text import plain
from ascertain.contracts.effect import State
from ascertain.ports import EffectFilter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from pathlib import Path

    from ascertain.contracts.effect import EffectRow, Evidence

_MOST: Final = 100_000
_EXAMPLES: Final = 5
_FEW_WORDS: Final = 100

# The safe next step for each cause; what a person decides is decided task by task.
NEXT: Final[Mapping[str, str]] = {
    "no_lookup": "Look outside by hand; then confirm or deny each.",
    "key_expired": "Look outside by hand; then confirm or deny each.",
    "accepted_without_lookup": "Ask the outside about the job; then confirm or deny each.",
    "budget": (
        "Mend the cause, then retry: each is asked for before it is sent again. One that cannot be asked for "
        "comes back: deny it, if `ascertain explain` says that it provably does not exist."
    ),
    "several": "Compare the facts; confirm each with the one that is its own.",
    "unknowable": "Compare the candidates; confirm each with the fact that is its own.",
    "differs": "Compare what was asked for with what is there; confirm, or deny with what you saw.",
    "absent_unprotected": "The outside shows nothing: deny what you know not to exist.",
    "accepted_then_absent": "Ask the outside what became of the job; then confirm or deny each.",
    "restored": (
        "The ledger was restored and may have forgotten what was done after its backup: look outside by "
        "hand; then confirm or deny each."
    ),
    "fact_taken": "Its fact proves another effect: look which is right, then abandon or deny.",
}
OTHERWISE: Final = "Explain one of them; retry if you do not know either, for it begins by asking."


@dataclass(frozen=True, slots=True)
class Cause:
    """Why effects wait: the same kind, partition, error class and last answer of the outside."""

    kind: str
    partition: str
    error_class: str
    answer: str

    @property
    def safe_next(self) -> str:
        """What to do about them, in one sentence."""
        return NEXT.get(self.error_class, OTHERWISE)


@dataclass(frozen=True, slots=True)
class Group:
    """The effects of one cause, the longest waiting first."""

    cause: Cause
    rows: tuple[EffectRow, ...]

    @property
    def age(self) -> timedelta:
        """How long the oldest has waited."""
        return self.rows[0].now - self.rows[0].state_since

    def document(self) -> dict[str, object]:
        """As one JSON object."""
        cause = self.cause
        return {
            "kind": cause.kind,
            "partition": cause.partition,
            "error_class": cause.error_class or None,
            "answer": cause.answer or None,
            "count": len(self.rows),
            "oldest_since": self.rows[0].state_since.isoformat(),
            "oldest_age_seconds": int(self.age.total_seconds()),
            "examples": [row.task_id for row in self.rows[:_EXAMPLES]],
            "safe_next": cause.safe_next,
        }


async def list_causes(asked: listing.Filter, config: Path | None, *, as_json: bool) -> None:
    """Print what waits by its cause; without a ledger one line a task.

    Raises:
        LedgerDown: The ledger cannot be asked.
        TemporalDown: The server cannot be asked.
    """
    where = place.find(config)
    if not where.has_ledger and where.stopped is None:
        output.note("No ledger is configured, so the causes are not known; these are the tasks.")
        await listing.list_tasks(asked, config, as_json=as_json)
        return
    asked.query()  # refuses names that nothing can have
    which = EffectFilter(
        states=frozenset({State.QUARANTINED}), partition=asked.partition, limit=_MOST
    )
    async with where.ledger() as ledger:
        rows = await ledger.effects(which)
        answers = await ledger.last_answers([row.effect_id for row in rows])
    found = None if asked.kind is None and not as_json else await listing.search(asked, config)
    if asked.kind is not None and found is not None:  # a task's kind stands with Temporal alone
        rows = [row for row in rows if row.task_id in {task.task_id for task in found}]
    groups = causes(rows, answers)
    if as_json:
        tasks = [task.document() for task in found or ()]
        output.document({"groups": [group.document() for group in groups], "tasks": tasks})
        return
    show(groups)


def causes(rows: Sequence[EffectRow], answers: Mapping[str, Evidence]) -> list[Group]:
    """Rows by their cause, the largest group first."""
    known: defaultdict[Cause, list[EffectRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.state_since):
        answer = _answer(answers.get(row.effect_id))
        known[Cause(row.kind, row.partition, row.error_class or "", answer)].append(row)
    groups = [Group(cause, tuple(waiting)) for cause, waiting in known.items()]
    return sorted(groups, key=lambda group: -len(group.rows))


def _answer(told: Evidence | None) -> str:
    """A lookup's words name the facts of one effect; its rule is what many have in common."""
    if told is None:
        return ""
    return told.rule if told.source == "lookup" else plain(told.detail or told.rule)[:_FEW_WORDS]


def show(groups: Sequence[Group]) -> None:
    """Print the groups and what is safe next about each cause."""
    if not groups:
        output.line("Nothing waits for a person.")
        return
    output.table(
        (
            "count",
            "oldest",
            "kind",
            "partition",
            "error class",
            "the outside last said",
            "for example",
        ),
        [
            (
                str(len(group.rows)),
                wording.age(group.age),
                group.cause.kind,
                group.cause.partition,
                group.cause.error_class,
                group.cause.answer or "nothing",
                group.rows[0].task_id,
            )
            for group in groups
        ],
    )
    output.line()
    for text in dict.fromkeys(
        f"{group.cause.error_class or 'other'}: {group.cause.safe_next}" for group in groups
    ):
        output.line(text)
    output.line("Each task: `explain TASK`, then `takeover TASK ...`; single tasks with --flat.")
