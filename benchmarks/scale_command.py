"""``./run bench scale``: ledgers of different size side by side."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import option
from benchmarks.command import show
from benchmarks.scale import measure
from benchmarks.stack import folder_of_run

_ROWS = (10_000, 100_000, 1_000_000)


def scale(
    *,
    rows: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Settled effects in a ledger; may be given again."),
    ] = None,
    effects: Annotated[int, typer.Option(min=1, help="Are settled in each of them.")] = 1000,
    quarantined: Annotated[
        int, typer.Option(min=1, help="Wait for a person in a ledger of their own.")
    ] = 100_000,
    as_json: option.Json = False,
    markdown: option.Markdown = False,
) -> None:
    """Claim, settle and read in ledgers that hold 10 thousand, 100 thousand and a million effects.

    A million take about two minutes to make and 3 GB of disk; ten million, with --rows 10000000, ten times
    that.
    """
    with Console(stderr=True).status("starting the server") as status, folder_of_run() as folder:
        found = asyncio.run(measure(folder, rows or _ROWS, effects, quarantined, status.update))
    show(found, as_json=as_json, markdown=markdown)
