"""``ascertain archive``: what has been settled for long, in few bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascertain.cli import output, place
from ascertain.cli.failure import asked_once
from ascertain.cli.progress import Progress
from ascertain.cli.text import counted
from ascertain.errors import LedgerDown

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path


async def archive(
    older_than: timedelta, batch: int, config: Path | None, *, dry_run: bool, as_json: bool
) -> None:
    """Archive page by page and print how much it was.

    Raises:
        LedgerDown: Whole pages are archived, the rest is as it was; run it again.
    """
    seen, archived, after = 0, 0, ""
    progress = Progress()
    async with place.find(config).ledger() as ledger:
        while True:
            try:
                page = await ledger.upkeep.archive(
                    older_than, after=after, limit=batch, moves=not dry_run
                )
            except LedgerDown as error:
                if dry_run or not archived:
                    raise
                raise LedgerDown(
                    f"{archived} and more are archived, and stay so: {asked_once(error)}. Give the same "
                    "command again for the rest"
                ) from error
            seen, archived, after = seen + page.seen, archived + page.archived, page.last
            progress.show(f"{seen} effects looked at")
            if page.seen < batch:
                break
    progress.clear()
    if as_json:
        output.document({"looked_at": seen, "archived": archived, "dry_run": dry_run})
        return
    looked = counted(seen, "effect was", "effects were")
    done = f"{archived} would be" if dry_run else counted(archived, "was", "were")
    output.line(f"{looked} looked at; {done} archived.")
