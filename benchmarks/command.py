"""``./run bench``: measure, or show a result that was measured before."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from benchmarks import machine, option, report, result
from benchmarks.ledger_cost import count
from benchmarks.measure import measure
from benchmarks.peer import presence
from benchmarks.plan import PEERS, USUAL, Contender, Load, Plan, Store
from benchmarks.stack import running

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_DEFAULT = Plan()


def bench(  # noqa: PLR0913  # each is one option of the command line
    context: typer.Context,
    *,
    server: Annotated[
        Store, typer.Option(help="Where the Temporal server keeps histories.")
    ] = _DEFAULT.store,
    rounds: Annotated[
        int, typer.Option(min=1, help="Each side runs so often under each load.")
    ] = _DEFAULT.rounds,
    load: option.Loads = None,
    side: Annotated[
        list[Contender] | None, typer.Option(help="Only this one; may be given again.")
    ] = None,
    peers: Annotated[
        bool,
        typer.Option("--peers", help="DBOS, Procrastinate and Restate too; installs them apart."),
    ] = False,
    as_json: option.Json = False,
    markdown: option.Markdown = False,
    measured: Annotated[
        Path | None,
        typer.Option("--from", help="Show this result instead of measuring.", dir_okay=False),
    ] = None,
) -> None:
    """Do one task with one HTTP call on every side, interleaved, and compare what it costs.

    Read the CPU first: on a shared machine the time of day moves wall times by far more than a release.
    """
    if context.invoked_subcommand is not None:
        return
    if measured is not None:
        found = json.loads(measured.read_text("utf-8"))
    else:
        plan = Plan(
            store=server,
            contenders=_contenders(side, peers=peers),
            rounds=rounds,
            loads=_DEFAULT.loads if load is None else tuple(map(load_of, load)),
        )
        progress = Console(stderr=True)
        with progress.status("starting the servers") as status:
            found = asyncio.run(run(plan, status.update))
    show(found, as_json=as_json, markdown=markdown)


def show(found: dict[str, Any], *, as_json: bool, markdown: bool) -> None:
    """Print a result."""
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif markdown:
        typer.echo(report.as_markdown(found), nl=False)
    else:
        Console().print(report.on_terminal(found))


async def run(plan: Plan, tell: Callable[[str], None]) -> dict[str, Any]:
    """Start the stack, run the plan, and give the result.

    Raises:
        SetupError: A part of the stack cannot run here; the message names its log.
    """
    before = machine.load_average()
    numbers = itertools.count(1)
    async with running(plan) as (stack, sides):
        measured = await measure(plan, sides, numbers, tell)
        tell("counting what the database does")
        counted = {
            side.contender: await count(side, stack.postgres, plan.apart, numbers) for side in sides
        }
    costs = {side: cost for side, cost in counted.items() if cost is not None}
    return result.as_json(plan, measured, costs, before)


def _contenders(chosen: list[Contender] | None, *, peers: bool) -> tuple[Contender, ...]:
    if chosen is not None and PEERS & set(chosen) and not peers:
        raise typer.BadParameter("a peer is measured with --peers alone")
    if not peers:
        return _among(USUAL if chosen is None else chosen)
    if not presence.installed():
        raise typer.BadParameter(
            "the peers are not installed here; `./run bench --peers` does that"
        )
    absent = {peer: why for peer in Contender if (why := presence.missing(peer)) is not None}
    for peer, why in absent.items():
        if chosen is not None and peer in chosen:
            raise typer.BadParameter(f"{peer}: {why}")
        if chosen is None:
            typer.echo(f"{peer} is left out: {why}", err=True)
    return _among(set(Contender if chosen is None else chosen) - set(absent))


def _among(chosen: Collection[Contender]) -> tuple[Contender, ...]:
    return tuple(contender for contender in Contender if contender in chosen)


def load_of(text: str) -> Load:
    """A load as it is written on the command line.

    Raises:
        BadParameter: It is none.
    """
    in_flight, _, tasks = text.partition(":")
    try:
        found = Load(int(in_flight), int(tasks))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not IN_FLIGHT:TASKS, such as 10:150") from None
    if found.in_flight < 1 or found.tasks < 1:
        raise typer.BadParameter(f"{text!r}: both numbers are at least 1")
    return found
