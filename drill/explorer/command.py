"""``explore``: prove the protocol's safety by walking all that can happen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ascertain.cli import output


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(explore)


def explore(
    *,
    only: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME", help="Walk this class only; may be given again."),
    ] = None,
    states: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop each class after N states.")
    ] = None,
    mutants: Annotated[
        bool,
        typer.Option("--mutants", help="Take every rule away once and see that it is noticed."),
    ] = False,
    promises: Annotated[
        bool, typer.Option("--promises", help="See what a broken promise costs, class by class.")
    ] = False,
    stories: Annotated[
        bool, typer.Option("--stories", help="Tell every counter-example, not only unwanted ones.")
    ] = False,
    document: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Do all three, and put the tables into this page."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Walk every interleaving of workers, zombies, reconcilers, operator, gate, clock and outside.

    Everything is asked of the real pure core, the real pure ledger and the real activities. Without
    --mutants or --promises the classes of outside are walked. Ends with 1 if a rule does not hold or a
    mutant is not caught; a counter-example is told as the shortest story.
    """
    from drill.explorer import report  # noqa: PLC0415 - the SDK costs what --help need not pay
    from drill.explorer.setting import settings  # noqa: PLC0415

    known = settings()
    for name in only or ():
        if name not in known:
            raise typer.BadParameter(f"no class {name}; there are: {', '.join(known)}")
    sections: list[report.Section] = []
    if only or document or not (mutants or promises):
        sections.append(report.classes(only or known, output.note, states))
    if mutants or document:
        sections.append(report.mutants(output.note))
    if promises or document:
        sections.append(report.promises(output.note))
    if document is not None:
        page = report.put_into(document.read_text("utf-8"), sections)
        document.write_text(page, "utf-8")
    if as_json:
        output.document({section.heading: section.document for section in sections})
    else:
        for section in sections:
            output.lines(section.lines(stories=stories))
    if not all(section.good for section in sections):
        raise typer.Exit(1)
