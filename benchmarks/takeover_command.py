"""``./run bench takeover``: the time from a crash to the question."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import option
from benchmarks.command import show
from benchmarks.stack import folder_of_run
from benchmarks.takeover import measure


def takeover(
    *,
    rounds: Annotated[int, typer.Option(min=1, help="Each is tried so often.")] = 3,
    as_json: option.Json = False,
    markdown: option.Markdown = False,
) -> None:
    """Kill workers that wait for an answer, lose answers, and time how soon the effect is asked for."""
    with Console(stderr=True).status("starting the servers") as status, folder_of_run() as folder:
        found = asyncio.run(measure(folder, rounds, status.update))
    show(found, as_json=as_json, markdown=markdown)
