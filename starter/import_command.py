"""``ascertain import``: take over the rows of a hand-built queue."""

# ruff: noqa: PLC0415 - each command imports what it needs when it runs, so that --help is quick
from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ascertain.cli import option, output
from ascertain.errors import AscertainError, InputError

if TYPE_CHECKING:
    from ascertain.cli.intake import Entry
    from starter.importer import Importer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="import")(import_)


def import_(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="One row a line, as JSON.")],
    *,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Take over rows of a hand-built inbox, outbox or lease table, each beginning with a lookup.

    A line is {"task": TASK, "state": "PROCESSING" or "PENDING"}. Safe to run again and again. Nothing may
    work on the old table any more.
    """
    raise typer.Exit(asyncio.run(_import(source, config, as_json=as_json)))


async def _import(source: Path, config: Path | None, *, as_json: bool) -> int:
    from ascertain.cli import intake, place
    from ascertain.cli.submit import opened
    from starter.importer import Importer
    from workers.registry import build_kinds, close
    from workers.secret import ProcessSecrets

    where = place.find(config)
    kinds = build_kinds(where.settings, ProcessSecrets())
    fates: Counter[str] = Counter()
    codes: set[int] = set()
    try:
        with opened(str(source)) as descriptor:
            async with where.ledger() as ledger:
                importer = Importer(await where.client(), ledger, kinds)
                found = await intake.read(descriptor, source, stream=True)
                async for entry in found.entries:
                    fate, code = await _line(importer, entry, as_json=as_json)
                    fates[fate] += 1
                    codes.add(code)
    finally:
        await close(kinds)
    if as_json:
        output.json_line({"lines": sum(fates.values()), **fates})
    else:
        told = ", ".join(f"{count} {fate}" for fate, count in sorted(fates.items()))
        output.line(f"{sum(fates.values())} rows: {told or 'none'}")
    return max(codes, default=0)


async def _line(importer: Importer, entry: Entry, *, as_json: bool) -> tuple[str, int]:
    try:
        row, submitted = await importer.take(entry.parse())
    except InputError as error:
        return _refused(entry, "refused", error, as_json=as_json)
    except AscertainError as error:
        return _refused(entry, "unanswered", error, as_json=as_json)
    fate = "duplicate" if submitted.duplicate else f"{row.state.lower()} taken over"
    if as_json:
        output.json_line({"line": entry.number, "task_id": submitted.task_id, "fate": fate})
    return fate, 0


def _refused(entry: Entry, fate: str, error: AscertainError, *, as_json: bool) -> tuple[str, int]:
    output.note(f"{entry.place(error)}: {fate}: {error}")
    if as_json:
        told = {"code": error.code, "message": str(error)}
        output.json_line({"line": entry.number, "fate": fate, "error": told})
    return fate, error.exit_code
