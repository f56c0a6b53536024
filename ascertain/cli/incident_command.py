"""``ascertain incident``. Each command imports what it needs when it runs, so that ``--help`` is quick."""

# ruff: noqa: PLC0415 - see above
from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import typer

from ascertain.cli import option

# The names of ``contracts.incident.Step``, which would cost a second to import; a test compares them.
Step = Literal["pause", "snapshot", "reconcile", "replay", "resume"]

Partition = Annotated[str, typer.Argument(metavar="PARTITION", help="The partition.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="Take a partition through pause, snapshot, reconcile, replay and resume, in that order.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    # Not open() itself: that is Python's own word.
    group.command(name="open")(open_)
    for command in (status, approve, close):
        group.command()(command)
    app.add_typer(group, name="incident")


def open_(  # noqa: PLR0913 - each is one option of the command
    partition: Partition,
    *,
    reason: option.Why,
    canary: option.Canary = 5,
    batch: option.Batch = 50,
    rate: option.Rate = 5.0,
    ask_rate: option.AskRate = None,
    stop_share: option.StopShare = 0.2,
    ramp: option.Ramp = None,
    operator: option.Operator = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Open an incident: pause the partition now, and then do each step only when somebody approves it.

    It runs in the cluster. A partition has one incident at a time.
    """
    from ascertain.cli import incident

    pace = {
        "canary": canary,
        "batch": batch,
        "rate": rate,
        "ask_rate": ask_rate,
        "stop_share": stop_share,
    }
    who = option.operator_name(operator)
    asyncio.run(incident.open_(partition, who, reason, pace, ramp, config, as_json=as_json))


def status(
    partition: Partition, *, config: option.Config = None, as_json: option.Json = False
) -> None:
    """Show what was done, what it came to, and which step waits for approval."""
    from ascertain.cli import incident

    asyncio.run(incident.status(partition, config, as_json=as_json))


def approve(
    partition: Partition,
    *,
    step: Annotated[
        Step | None,
        typer.Option(metavar="STEP", help="Which you mean; else the one that waits."),
    ] = None,
    reason: option.Why,
    operator: option.Operator = None,
    request_id: option.RequestId = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """Let the next step begin. The order cannot be skipped; an approval given twice is given once."""
    from ascertain.cli import incident, replay

    word = replay.said(option.operator_name(operator), reason, request_id)
    asyncio.run(incident.approve(partition, step, word, config, as_json=as_json))


def close(
    partition: Partition,
    *,
    reason: option.Why,
    operator: option.Operator = None,
    request_id: option.RequestId = None,
    config: option.Config = None,
    as_json: option.Json = False,
) -> None:
    """End the incident. The gate stays as it is: paused, if `resume` was not done."""
    from ascertain.cli import incident, replay

    word = replay.said(option.operator_name(operator), reason, request_id)
    asyncio.run(incident.close(partition, word, config, as_json=as_json))
