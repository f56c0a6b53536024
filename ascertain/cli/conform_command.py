"""``ascertain conform``: the conformance kit on the command line."""

# ruff: noqa: PLC0415 - what the kit needs is imported when it runs, so that --help is quick
from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ascertain.cli import option, output

if TYPE_CHECKING:
    from ascertain.testing.conformance.report import Line, Report

_MEASURES: Final = ("outside", "declared", "measured")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(conform)


def conform(
    place: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:TRIAL",
            help="A Trial of your adapter, or a function that opens one; from the current directory.",
        ),
    ],
    *,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the measured contract, which a kind can name."),
    ] = None,
    as_json: option.Json = False,
) -> None:
    """Try an adapter: crash, lose, repeat, flood; measure its outside; compare with what it declares.

    Run it against an outside that is not the real one: it makes facts there. Exits with 0 only if nothing
    failed.
    """
    from ascertain.testing.conformance import trial
    from ascertain.testing.conformance.kit import conform as run

    sys.path.insert(0, str(Path.cwd()))
    report = asyncio.run(run(lambda: trial.find(place), _note))
    if write is not None:
        option.write(write, report.measured.model_dump_json(indent=2) + "\n")
    if as_json:
        output.document(report.document())
    else:
        _show(report)
    raise typer.Exit(0 if report.ok else 1)


def _note(line: Line) -> None:
    output.note(f"{line.name}: {line.result}")


def _show(report: Report) -> None:
    from ascertain.testing.conformance.report import HEAD

    output.table(HEAD, report.rows())
    output.line()
    output.table(_MEASURES, report.measurements())
    output.line()
    failed = ", ".join(report.failed)
    output.line(f"failed: {failed}" if failed else "nothing failed")
