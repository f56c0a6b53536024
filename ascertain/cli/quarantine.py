"""``ascertain list --quarantined``: what waits for a person, by its cause."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ascertain.cli import acquaintance, listing, output, place, wording
from ascertain.cli.text import as_typed, counted, plain, program
from ascertain.contracts.effect import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ascertain.ports import Upkeep, Waiting

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
_EVERY: Final = 100_000
OTHERWISE: Final = "Explain one of them; retry if you do not know either, for it begins by asking."


def document(group: Waiting) -> dict[str, object]:
    """A group as one JSON object."""
    return {
        "kind": group.kind,
        "partition": group.partition,
        "error_class": group.error_class or None,
        "answer": plain(group.answer) or None,
        "count": group.count,
        "oldest_since": group.oldest_since.isoformat(),
        "oldest_age_seconds": int(group.age.total_seconds()),
        "examples": list(group.examples),
        "safe_next": safe_next(group),
    }


def safe_next(group: Waiting) -> str:
    """What to do about them, in one sentence."""
    return as_typed(NEXT.get(group.error_class, OTHERWISE))


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
    # A task's kind stands with Temporal alone. The limit is one of causes, whatever they count.
    every = replace(asked, limit=_EVERY)
    of_kind = None if asked.kind is None else await listing.search(every, config)
    found = await listing.search(asked, config) if as_json and of_kind is None else of_kind or []
    async with where.ledger() as ledger:
        groups = await ledger.upkeep.quarantined(
            asked.partition, None if of_kind is None else [task.task_id for task in of_kind]
        )
        taken = await _in_hands(every, ledger.upkeep, config)
        if not groups and not taken:
            await acquaintance.note_if_unknown(ledger, where, asked.partition)
            await acquaintance.note_if_no_kind(where, asked.kind)
    first, left = groups[: asked.limit], len(groups) - asked.limit
    if left > 0:
        output.note(
            f"{counted(left, 'more cause is', 'more causes are')} not shown: raise --limit."
        )
    if as_json:
        tasks = [task.document() for task in found[: asked.limit]]
        shown = {"groups": [document(group) for group in first], "tasks": tasks}
        output.document(shown | {"taken_over": taken})
        return
    if groups or not taken:
        show(first)
    if taken:
        held = counted(taken, "effect is", "effects are")
        output.line(
            f"{held} in a person's hands: `{program()} list --state TAKEN_OVER` lists what was taken over "
            "and not decided."
        )


async def _in_hands(asked: listing.Filter, upkeep: Upkeep, config: Path | None) -> int:
    """How many of what is asked for a person has taken over."""
    if asked.kind is not None:
        return len(await listing.search(replace(asked, state=State.TAKEN_OVER.value), config))
    tallies = await upkeep.tallies({State.TAKEN_OVER})
    return sum(each.count for each in tallies if asked.partition in {None, each.partition})


def show(groups: Sequence[Waiting]) -> None:
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
                str(group.count),
                wording.age(group.age),
                group.kind,
                group.partition,
                group.error_class,
                plain(group.answer) or "no answer came",
                group.examples[0],
            )
            for group in groups
        ],
    )
    output.line()
    for text in dict.fromkeys(
        f"{group.error_class or 'other'}: {safe_next(group)}" for group in groups
    ):
        output.line(text)
    output.line("Each task: `explain TASK`, then `takeover TASK ...`; single tasks with --flat.")
