"""Commands about streams. Each imports what it needs when it runs, so that ``--help`` is quick."""

# ruff: noqa: PLC0415 - see above
from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from ascertain.cli import option

Name = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    stream = typer.Typer(help="Look at a stream of many small tasks, pause it, let it go on.")
    for command in (status, pause, resume):
        stream.command()(command)
    app.add_typer(stream, name="stream")


def status(name: Name, *, config: option.Config = None, as_json: option.Json = False) -> None:
    """Show how far a stream is; what is settled, refused and handed over adds up to its tasks."""
    from ascertain.cli import bulk

    asyncio.run(bulk.status(name, config, as_json=as_json))


def pause(
    name: Name,
    *,
    reason: option.Why,
    operator: option.Operator = None,
    request_id: option.RequestId = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Begin no further chunk. What is under way is finished."""
    from ascertain.cli import bulk, replay

    word = replay.said(option.operator_name(operator), reason, request_id)
    asyncio.run(bulk.steer(name, word, config, paused=True, as_json=as_json))


def resume(
    name: Name,
    *,
    reason: option.Why,
    operator: option.Operator = None,
    request_id: option.RequestId = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Let a paused stream go on."""
    from ascertain.cli import bulk, replay

    word = replay.said(option.operator_name(operator), reason, request_id)
    asyncio.run(bulk.steer(name, word, config, paused=False, as_json=as_json))
