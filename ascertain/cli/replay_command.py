"""``ascertain replay``. Each command imports what it needs when it runs, so that ``--help`` is quick."""

# ruff: noqa: PLC0415 - see above
from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Annotated

import typer

from ascertain.cli import option

Replay = Annotated[str, typer.Argument(metavar="REPLAY", help="The replay's id.")]

States = Annotated[
    list[str] | None,
    typer.Option(help="QUARANTINED or UNKNOWN; may be given again. Else: QUARANTINED."),
]
Patience = Annotated[
    timedelta,
    typer.Option(
        parser=option.length,
        metavar="TIME",
        show_default="5m",
        help="How long a batch may take to come to rest.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="Have many quarantined effects tried again: asked for first, in small batches.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    for command in (start, status, pause, resume, report):
        group.command()(command)
    app.add_typer(group, name="replay")


def start(  # noqa: PLR0913 - each is one option of the command
    replay: Annotated[
        str | None, typer.Argument(metavar="[REPLAY]", help="Its id; made up if left out.")
    ] = None,
    *,
    reason: option.Why,
    partition: Annotated[str | None, typer.Option(help="Only of this partition.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind of effect.")] = None,
    error_class: Annotated[str | None, typer.Option(help="Only with this error class.")] = None,
    state: States = None,
    task: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only of this task; may be given again.")
    ] = None,
    effect: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only this effect; may be given again.")
    ] = None,
    canary: option.Canary = 5,
    batch: option.Batch = 50,
    rate: option.Rate = 5.0,
    ask_rate: option.AskRate = None,
    stop_share: option.StopShare = 0.2,
    patience: Patience = timedelta(minutes=5),
    go_on: Annotated[
        bool, typer.Option("--go-on", help="Begin with the canary without waiting for `resume`.")
    ] = False,
    operator: option.Operator = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Start a replay: a dry run that asks for every item, then a canary, then batch after batch.

    It runs in the cluster, not here. After the dry run it waits for `resume` unless told to go on. Every item
    is told through its own task, for exactly the version that was selected; nothing is sent before it was
    asked for. A partition that is paused stays paused: its items wait.
    """
    from ascertain.cli import replay as command

    wish = command.Wish(
        selection={
            "partition": partition,
            "kind": kind,
            "error_class": error_class,
            "states": state or ["QUARANTINED"],
            "task_ids": task or [],
            "effect_ids": effect or [],
        },
        pace={
            "canary": canary,
            "batch": batch,
            "rate": rate,
            "ask_rate": ask_rate,
            "stop_share": stop_share,
            "patience": patience,
        },
        go_on=go_on,
        operator=option.operator_name(operator),
        reason=reason,
    )
    asyncio.run(command.start(replay, wish, config, as_json=as_json))


def status(replay: Replay, *, config: option.Config = None, as_json: option.Json = False) -> None:
    """Show how far a replay is, what the dry run saw and what its items came to."""
    from ascertain.cli import replay as command

    asyncio.run(command.status(replay, config, as_json=as_json))


def pause(
    replay: Replay,
    *,
    reason: option.Why,
    operator: option.Operator = None,
    request_id: option.RequestId = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Have a replay tell nothing new. What was told goes on by itself."""
    _say(replay, "pause", operator, reason, request_id, config, as_json=as_json)


def resume(
    replay: Replay,
    *,
    reason: option.Why,
    operator: option.Operator = None,
    request_id: option.RequestId = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Have a replay go on: after its dry run, a pause, or too many errors."""
    _say(replay, "resume", operator, reason, request_id, config, as_json=as_json)


def report(
    replay: Replay,
    *,
    result: Annotated[
        list[str] | None,
        typer.Option(metavar="RESULT", help="Only items of this result; may be given again."),
    ] = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """List what became of every item of a replay, from the ledger; needs no worker."""
    from ascertain.cli import replay as command

    asyncio.run(command.report(replay, frozenset(result or ()), config, as_json=as_json))


def _say(
    replay: str,
    what: str,
    operator: str | None,
    reason: str,
    request_id: str | None,
    config: option.Config,
    *,
    as_json: bool,
) -> None:
    from ascertain.cli import replay as command

    word = command.said(option.operator_name(operator), reason, request_id)
    asyncio.run(command.say(replay, what, word, config, as_json=as_json))
