"""``ascertain drill``: the drill on the command line."""

# ruff: noqa: PLC0415 - what the drill needs is imported when it runs, so that --help is quick
from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ascertain.cli import failure, option, output
from drill.explorer import command as explorer
from drill.kind import OutsideClass, Route
from drill.protection import Protection

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from drill.matrix.board import Choice

_SEED: Final = 1
_CHAOS_S: Final = 120.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(drill)
    explorer.register(app)


def drill(  # noqa: PLR0913 - each is an option of one command
    *,
    row: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this row; may be given again."),
    ] = None,
    outside: Annotated[
        list[OutsideClass] | None,
        typer.Option(
            "--class", metavar="NAME", help="Only this class of outside; may be repeated."
        ),
    ] = None,
    path: Annotated[
        Route | None, typer.Option(metavar="inline|queued", help="Only this path of the work.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed, the same plan.")] = _SEED,
    repeat: Annotated[
        int, typer.Option(min=1, metavar="N", help="Each row so often; the seed goes up by one.")
    ] = 1,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with a picture per row.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="MODULE", help="Drill your adapter: the kind that MODULE declares."),
    ] = None,
    without: Annotated[
        Protection | None,
        typer.Option(metavar="claim|lookup", help="Take a protection away: the drill must notice."),
    ] = None,
    chaos: Annotated[
        bool, typer.Option("--chaos", help="Instead: everything goes wrong at once, at random.")
    ] = False,
    seconds: Annotated[
        float, typer.Option(min=5, metavar="N", help="How long faults strike with --chaos.")
    ] = _CHAOS_S,
    explore: Annotated[
        bool, typer.Option("--explore", help="Instead: what `explore` does, over all classes.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, on one line.")
    ] = False,
) -> None:
    """Strike real workers and servers where it hurts, and compare the outside's books afterwards.

    Everything is real but the outside, which is a toy that keeps its own books. Exits with 0 only if every
    effect exists outside exactly once and the audit trail accounts for all that was done.
    """
    if explore:
        explorer.explore(as_json=as_json)
        return
    if chaos:
        raise typer.Exit(_run(_chaos(seed, seconds, as_json=as_json)))
    chosen = _choice(row, outside, path, against)
    choice = replace(chosen, seed=seed, repeat=repeat, without=without)
    raise typer.Exit(_run(_matrix(choice, html, as_json=as_json)))


def _choice(
    rows: list[str] | None,
    classes: list[OutsideClass] | None,
    path: Route | None,
    against: str | None,
) -> Choice:
    from drill.against import read
    from drill.matrix.board import ALL, Choice

    for name in rows or ():
        if name not in ALL:
            raise typer.BadParameter(f"no row {name}; there are: {', '.join(ALL)}")
    theirs = None if against is None else read(against)
    if theirs is not None and classes:
        raise typer.BadParameter("with --against the class is that of the declared semantics")
    return Choice(
        rows=tuple(ALL[name] for name in rows or ALL),
        classes=tuple(classes or OutsideClass) if theirs is None else (theirs.outside,),
        routes=tuple(Route) if path is None else (path,),
        against=theirs,
    )


def _run(main: Coroutine[None, None, int]) -> int:
    try:
        return asyncio.run(_interruptible(main))
    except asyncio.CancelledError:
        return failure.INTERRUPTED


async def _interruptible(main: Coroutine[None, None, int]) -> int:
    """Let a signal end it in good order, so that no process of it outlives it."""
    ourselves = asyncio.current_task()
    if ourselves is not None:
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, ourselves.cancel)
    return await main


async def _matrix(choice: Choice, html: Path | None, *, as_json: bool) -> int:
    from drill.matrix.game import matrix
    from drill.matrix.page import HEAD, cells, page
    from drill.matrix.result import document

    results = await matrix(choice, output.note)
    if html is not None:
        await asyncio.to_thread(option.write, html, page(results))
    told = document(results)
    if as_json:
        output.json_line(told)
    else:
        output.table(HEAD, [cells(result) for result in results])
        for result in results:
            for fault in result.faults:
                output.line(f"{result.cell.task_id}: {fault}")
        output.line(f"{told['passed']} right, {told['failed']} wrong; seed {choice.seed}")
    return 0 if told["ok"] else 1


async def _chaos(seed: int, seconds: float, *, as_json: bool) -> int:
    from drill.chaos.game import chaos

    report = await chaos(seed, seconds, output.note)
    for line in report.lines():
        (output.note if as_json else output.line)(line)
    if as_json:
        output.json_line(report.document())
    return 0 if report.ok else 1
