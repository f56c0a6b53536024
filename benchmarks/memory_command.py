"""``./run bench memory``: what open tasks hold in memory."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import option
from benchmarks.command import show
from benchmarks.memory import OpenTasks, measure
from benchmarks.plan import Store
from benchmarks.stack import folder_of_run

_DEFAULT = OpenTasks()


def memory(
    *,
    tasks: Annotated[int, typer.Option(min=1, help="Are open at a time.")] = _DEFAULT.tasks,
    server: Annotated[
        Store, typer.Option(help="Where the Temporal server keeps histories.")
    ] = _DEFAULT.store,
    settle: Annotated[
        float,
        typer.Option(
            min=0, help="Memory is read so many seconds after the last one began to wait."
        ),
    ] = _DEFAULT.settle_s,
    as_json: option.Json = False,
    markdown: option.Markdown = False,
) -> None:
    """Leave tasks open and compare the memory of worker, servers and database before and after.

    Tasks that a paused partition holds, tasks in UNKNOWN that ask again tomorrow, and workflows of plain
    Temporal that wait on a timer; each in servers of their own.
    """
    with Console(stderr=True).status("starting the servers") as status, folder_of_run() as folder:
        found = asyncio.run(measure(folder, OpenTasks(server, tasks, settle), status.update))
    show(found, as_json=as_json, markdown=markdown)
