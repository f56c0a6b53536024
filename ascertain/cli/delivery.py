"""``ascertain deliveries``: what was asked for again of a task that was there already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascertain.cli import output, place, wording
from ascertain.ledger.delivery import DeliveryBook

if TYPE_CHECKING:
    from pathlib import Path


async def show(task_id: str, config: Path | None, *, as_json: bool) -> None:
    """Print the deliveries after the one that started the task.

    Raises:
        LedgerDown: It does not answer.
        WrongSchema: It must be migrated first.
        InvalidSettings: No ledger is named.
    """
    book = DeliveryBook(place.find(config).ledger_url)
    try:
        found = await book.of_task(task_id)
    finally:
        await book.aclose()
    if as_json:
        shown = [counted.model_dump(mode="json") for counted in found]
        output.document({"task_id": task_id, "deliveries": shown})
        return
    if not found:
        output.line(
            f"No further delivery of task {task_id} is on record: it was asked for once, or never."
        )
        return
    output.table(
        ("message", "fate", "times", "first", "last", "content"),
        [
            (
                counted.message_id or "-",
                counted.fate.value,
                str(counted.count),
                wording.moment(counted.first_at),
                wording.moment(counted.last_at),
                counted.fingerprint[:12],
            )
            for counted in found
        ],
    )
