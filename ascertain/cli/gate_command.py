"""Commands about partitions. Each imports what it needs when it runs, so that ``--help`` is quick."""

# ruff: noqa: PLC0415 - see above
from __future__ import annotations

import asyncio
from typing import Annotated, Final

import typer

from ascertain.cli import option

EVERY: Final = "*"

Partition = Annotated[str | None, typer.Argument(metavar="PARTITION", help="Or --all.")]
Every = Annotated[bool, typer.Option("--all", help="Every partition at once.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (pause, resume, partitions, top):
        app.command()(command)


def pause(  # noqa: PLR0913 - each is one option of the command
    partition: Partition = None,
    *,
    every: Every = False,
    reason: Annotated[
        str,
        typer.Option(help="Why; shown to everybody who meets the closed gate."),
    ],
    operator: option.Operator = None,
    request_id: option.RequestId = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until nothing of it is in flight.")
    ] = False,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Stop dispatch in a partition. Asking, commands and what is in flight go on."""
    from ascertain.cli import gate
    from ascertain.cli.change import Change

    change = Change(
        _which(partition, every=every), option.operator_name(operator), reason, request_id
    )
    asyncio.run(gate.pause(change, config, wait=wait, as_json=as_json))


def resume(  # noqa: PLR0913 - each is one option of the command
    partition: Partition = None,
    *,
    every: Every = False,
    reason: Annotated[str, typer.Option(help="Why.")] = "resumed",
    operator: option.Operator = None,
    request_id: option.RequestId = None,
    ramp: option.Ramp = None,
    wake_rate: Annotated[
        float, typer.Option(min=0.1, max=10_000, help="Held tasks woken a second.")
    ] = 20.0,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Let a partition dispatch again, and wake its held tasks a few at a time.

    With --ramp the gate itself opens little by little: each effect has its turn, which its id decides.
    """
    from ascertain.cli import gate
    from ascertain.cli.change import Change

    change = Change(
        _which(partition, every=every), option.operator_name(operator), reason, request_id, ramp
    )
    asyncio.run(gate.resume(change, config, wake_rate=wake_rate, as_json=as_json))


def partitions(*, config: option.Config = None, as_json: option.Json = False) -> None:
    """List the partitions: which are paused, since when, by whom, why, and what is unresolved."""
    from ascertain.cli import gate

    asyncio.run(gate.partitions(config, as_json=as_json))


def top(
    partition: Annotated[
        str | None, typer.Argument(metavar="PARTITION", help="Only this one, with its effects.")
    ] = None,
    *,
    every: Annotated[
        float, typer.Option(min=0.2, max=3600, metavar="SECONDS", help="How often it looks.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    config: option.Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document for each look, one a line.")
    ] = False,
) -> None:
    """Watch the partitions: gates, what is unresolved, for how long, and how fast tasks come and go.

    At a terminal it stays on the screen until Ctrl-C; elsewhere it prints plain tables.
    """
    from ascertain.cli import listing, top as board

    if partition is not None:
        listing.checked_partition(partition)
    asyncio.run(board.top(config, partition=partition, every=every, once=once, as_json=as_json))


def _which(partition: str | None, *, every: bool) -> str:
    if (partition is None) != every or partition == EVERY:
        raise typer.BadParameter("name one PARTITION, or say --all")
    return EVERY if partition is None else partition
