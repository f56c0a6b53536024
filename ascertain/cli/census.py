"""``ascertain census``: the outside's own list against the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import typer

from ascertain.cli import output, place, shape, wording
from ascertain.cli.advice import Advice
from ascertain.cli.failure import DISAGREES, NOT_COMPARED
from ascertain.cli.text import as_typed, program
from ascertain.cli.upkeep import run_now
from ascertain.contracts import names
from ascertain.contracts.census import (
    Censuses,
    CensusOrder,
    CensusReport,
    Discord,
    Discrepancy,
)
from ascertain.errors import NotFound
from ascertain.scheduled import latest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from pathlib import Path

NEXT: Final[Mapping[Discord, str]] = {
    Discord.DUPLICATE: (
        "take one back outside, by hand; `ascertain explain EFFECT` tells which one the ledger knows"
    ),
    Discord.UNRECORDED: (
        "the ledger was set back, perhaps: write the tasks that were begun since its backup out as rows that "
        "are PROCESSING, then `ascertain import FILE` and `ascertain sweep`, which asks for each and sends "
        "nothing that is there (the page on restoring)"
    ),
    Discord.DENIED: "`ascertain explain EFFECT` tells who closed it, and why",
    Discord.VANISHED: "ask who removed it outside",
    Discord.CHANGED: "ask who reversed it outside",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """Which census is asked for; no kinds: those of the deployment."""

    kinds: tuple[str, ...]
    since: timedelta | None
    within: timedelta | None


async def census(wish: Wish, config: Path | None, *, as_json: bool) -> int:
    """Have a census taken and print it.

    Returns:
        0, 13 if the outside and the ledger disagree, or 14 if nothing was compared.

    Raises:
        NotOver: It is not over in time; it goes on.
        BadParameter: No kind is named, here or in a deployment file.
    """
    where = place.find(config)
    kinds = wish.kinds or tuple(sorted(where.settings.kinds))
    if not kinds:
        raise typer.BadParameter("no deployment file names a kind: say --kind, or --config")
    order = CensusOrder(kinds=kinds, no_older_than=wish.since)
    taken = await run_now(where, names.CENSUS_WORKFLOW, order, Censuses, wish.within)
    return tell(taken.reports, as_json=as_json)


async def last_census(kinds: Sequence[str], config: Path | None, *, as_json: bool) -> int:
    """Print what the newest finished census of the schedule found, of these kinds or of all.

    Returns:
        As ``census``.

    Raises:
        NotFound: The schedule has finished none, or there is no schedule.
    """
    where = place.find(config)
    found = await latest((await where.client()).temporal, where.settings.task_queue)
    if found is None:
        raise NotFound(
            "no census of the schedule is finished yet; `ascertain census` takes one now"
        )
    if not as_json:
        output.line(f"Census of {wording.moment(found.at)}:")
    taken = {one.kind: one for one in found.censuses.reports}
    chosen = [taken.get(kind) or _not_taken(kind) for kind in kinds or taken]
    return tell(chosen, as_json=as_json, at=found.at)


def _not_taken(kind: str) -> CensusReport:
    return CensusReport(kind=kind, not_taken="the schedule's deployment has no such kind")


def tell(reports: Sequence[CensusReport], *, as_json: bool, at: datetime | None = None) -> int:
    """Print what censuses found, and give the exit code."""
    if as_json:
        taken = {} if at is None else {"at": at.isoformat()}
        found = [one.model_dump(mode="json") for one in reports]
        safe_next = shape.advice_document([_advice(discord) for discord in _discords(reports)])
        output.document({**taken, "censuses": found, "safe_next": safe_next})
    else:
        _print(reports)
    if any(one.discrepancies for one in reports):
        return DISAGREES
    return 0 if any(one.not_taken is None for one in reports) else NOT_COMPARED


def _print(reports: Sequence[CensusReport]) -> None:
    taken = [one for one in reports if one.not_taken is None]
    if taken:
        _print_taken(taken)
    for one in reports:
        if one.not_taken is not None:
            output.line(f"No census of {one.kind}: {one.not_taken}")
    if not taken:
        output.line("So nothing was compared, and whether anything exists twice is not known.")
    for one in reports:
        for found in one.discrepancies:
            output.line(_words(found, one.kind))
    for discord in _discords(reports):
        output.line(f"What to do about {discord}: {NEXT[discord]}.")


def _words(found: Discrepancy, kind: str) -> str:
    words = f"{found.discord}: {found.effect_id} of {kind}: {found.detail}"
    unsaid = [each for each in found.external_ids if each not in found.detail]
    return f"{words} ({', '.join(unsaid)})" if unsaid else words


def _discords(reports: Sequence[CensusReport]) -> list[Discord]:
    """Each sort of disagreement that was found."""
    found = {one.discord for report in reports for one in report.discrepancies}
    return [discord for discord in Discord if discord in found]


def _advice(discord: Discord) -> Advice:
    command = "import FILE" if discord is Discord.UNRECORDED else "explain EFFECT"
    return Advice(f"{program()} {command}", wording.sentence(discord, as_typed(NEXT[discord])))


def _print_taken(reports: Sequence[CensusReport]) -> None:
    output.table(
        (
            "kind",
            "listed",
            "effects",
            "duplicates",
            "rate",
            "at most (95 %)",
            "settled",
            "disagree",
        ),
        [_row(one) for one in reports],
    )


def _row(one: CensusReport) -> tuple[str, ...]:
    rate = "" if one.duplicate_effect_rate is None else f"{one.duplicate_effect_rate:.3g}"
    numbers = (one.listed, one.effects, one.duplicates)
    upper = f"{one.duplicate_effect_rate_upper:.3g}"
    disagree = sum(one.count.values())
    return (one.kind, *map(str, numbers), rate, upper, str(one.settled), str(disagree))
