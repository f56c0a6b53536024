"""``ascertain worker``: one worker process."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ascertain.cli import option

if TYPE_CHECKING:
    from ascertain.settings import Settings

Level = Literal["debug", "info", "warning", "error"]
Shape = Literal["text", "json"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(worker)


def worker(  # noqa: PLR0913 - each is one option of the command
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
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            callback=option.address,
            help="Serve /metrics, /live and /ready here; else as [worker] metrics says.",
        ),
    ] = None,
    temporal_metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            callback=option.address,
            help="Serve the Temporal SDK's own /metrics here; else as [worker] temporal_metrics says.",
        ),
    ] = None,
    log_level: Annotated[Level, typer.Option(help="What is logged to standard error.")] = "info",
    log_format: Annotated[
        Shape, typer.Option(help="How: lines for people, or JSON objects that carry every id.")
    ] = "text",
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
    from workers import log  # noqa: PLC0415
    from workers.serve import serve  # noqa: PLC0415
    from workers.worker import Role  # noqa: PLC0415

    log.begin(log_level, log_format)
    where = place.find(config)
    where.must_run()
    settings = _watched(where.settings, metrics, temporal_metrics)
    role = Role(tuple(queue) if queue else None, orchestrate, max_concurrent)
    asyncio.run(serve(settings, role, on_ready=lambda line: _ready(line, as_json=as_json)))


def _watched(settings: Settings, metrics: str | None, temporal_metrics: str | None) -> Settings:
    """The deployment, with what the command line says of this process."""
    said = {"metrics": metrics, "temporal_metrics": temporal_metrics}
    worker = settings.worker.model_copy(update={name: at for name, at in said.items() if at})
    return settings.model_copy(update={"worker": worker})


def _ready(line: str, *, as_json: bool) -> None:
    sys.stdout.write(f"{json.dumps({'ready': line}) if as_json else f'ready: {line}'}\n")
    sys.stdout.flush()
