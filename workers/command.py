"""``ascertain worker``: one worker process."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Annotated, Literal

import typer

from ascertain.cli import option

Level = Literal["debug", "info", "warning", "error"]

_LINE = "%(asctime)s %(levelname)s %(name)s %(message)s"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(worker)


def worker(
    *,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            metavar="Q",
            help="Do the queued kinds of this task queue only; may be given again. Else: of all.",
        ),
    ] = None,
    orchestrate: Annotated[
        bool,
        typer.Option(
            "--orchestrate/--no-orchestrate",
            help="Whether it also runs workflows and inline effects.",
        ),
    ] = True,
    max_concurrent: Annotated[
        int, typer.Option(min=1, max=10_000, help="Most effects at once, per queue.")
    ] = 100,
    log_level: Annotated[Level, typer.Option(help="What is logged to standard error.")] = "info",
    config: option.Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the ready line as a JSON document.")
    ] = False,
) -> None:
    """Serve the deployment's kinds of effect.

    Prints one line when it is ready. SIGTERM or Ctrl-C ends it cleanly: no new work is taken, and what is in
    hand is finished.
    """
    from ascertain.cli import place  # noqa: PLC0415 - the SDK costs what --help need not pay
    from workers.serve import serve  # noqa: PLC0415
    from workers.worker import Role  # noqa: PLC0415

    logging.basicConfig(level=log_level.upper(), stream=sys.stderr, format=_LINE)
    settings = place.find(config).settings
    role = Role(tuple(queue) if queue else None, orchestrate, max_concurrent)
    asyncio.run(serve(settings, role, on_ready=lambda line: _ready(line, as_json=as_json)))


def _ready(line: str, *, as_json: bool) -> None:
    sys.stdout.write(f"{json.dumps({'ready': line}) if as_json else f'ready: {line}'}\n")
    sys.stdout.flush()
