"""``./run bench tuning``: what each setting is worth."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import option
from benchmarks.command import load_of, show
from benchmarks.lever import AS_IT_IS, LEVERS
from benchmarks.stack import folder_of_run
from benchmarks.tuning import Tuning, measure

_DEFAULT = Tuning()


def tuning(
    *,
    rounds: Annotated[
        int, typer.Option(min=1, help="Each runs so often under each load.")
    ] = _DEFAULT.rounds,
    load: option.Loads = None,
    lever: Annotated[
        list[str] | None, typer.Option(help="Only this one; may be given again.")
    ] = None,
    as_json: option.Json = False,
    markdown: option.Markdown = False,
) -> None:
    """Set one thing otherwise, and compare what the same tasks cost with the worker as it is."""
    unknown = set(lever or ()) - (set(LEVERS) - {AS_IT_IS})
    if unknown:
        known = ", ".join(map(repr, _DEFAULT.levers))
        raise typer.BadParameter(f"there is no lever {min(unknown)!r}; there are {known}")
    plan = Tuning(
        levers=_DEFAULT.levers if lever is None else tuple(lever),
        rounds=rounds,
        loads=_DEFAULT.loads if load is None else tuple(map(load_of, load)),
    )
    with Console(stderr=True).status("starting the servers") as status, folder_of_run() as folder:
        found = asyncio.run(measure(folder, plan, status.update))
    show(found, as_json=as_json, markdown=markdown)
