"""Options that every command of ``./run bench`` has."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="The result as JSON on standard output.")
]
Markdown: TypeAlias = Annotated[
    bool, typer.Option("--markdown", help="The tables as Markdown on standard output.")
]
Loads: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--load", metavar="IN_FLIGHT:TASKS", help="May be given again."),
]
