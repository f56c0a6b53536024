"""``ascertain demo``: the demonstration on the command line."""

# ruff: noqa: PLC0415 - what the demonstration needs is imported when it runs, so that --help is quick
from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ascertain.cli import failure, output

if TYPE_CHECKING:
    from collections.abc import Callable

    from starter.demo.demonstration import Demonstration, Options
    from starter.demo.report import Report

_SEED: Final = 1
_WIDTH: Final = 100
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    *,
    tasks: Annotated[
        int | None, typer.Option(metavar="N", min=8, help="Only the first N payments.")
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Of the faults: the same seed, the same faults.")
    ] = _SEED,
    naive: Annotated[
        bool, typer.Option("--naive", help="Without Ascertain: the same faults make duplicates.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything up at the end, with the Web UI.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, on one line.")
    ] = False,
) -> None:
    """Make 120 payments through real faults, then ask the outside what it has.

    The outside is a Stripe-compatible server that ignores idempotency keys. Answers are lost after the work
    is done, a worker is killed between an effect and its record, and another one is frozen past its time.
    Exits with 0 only if every task has exactly the facts that it should have.
    """
    from starter.demo.demonstration import Options

    options = Options(tasks=tasks, seed=seed, naive=naive, keep=keep)
    try:
        code = asyncio.run(_main(options, as_json=as_json))
    except asyncio.CancelledError:
        code = failure.INTERRUPTED
    raise typer.Exit(code)


async def _main(options: Options, *, as_json: bool) -> int:
    from rich.console import Console

    from starter.demo.demonstration import demonstrate
    from starter.demo.show import show_on

    ourselves = asyncio.current_task()
    if ourselves is not None:
        _on_signals(ourselves.cancel)
    async with AsyncExitStack() as running:
        with show_on(Console(stderr=True)) as show:
            demonstration = await running.enter_async_context(demonstrate(options, show))
        report = demonstration.report
        for line in _lines(report, options):
            (output.note if as_json else output.line)(line)
        if as_json:
            output.json_line(report.figures())
        output.flush()
        if options.keep:
            await _stay(demonstration)
    return 0 if report.ok else 1


def _on_signals(stop: Callable[[], object]) -> None:
    """Have Ctrl-C and the like stop us in good order, also where a shell had them ignored."""
    for number in _SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop)


def _lines(report: Report, options: Options) -> list[str]:
    """The verdict: the table, the faults that were done, and what is wrong."""
    from rich.console import Console

    from starter.demo.report import complaints, struck, table

    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    with console.capture() as captured:
        console.print(table(report))
    lines = [*captured.get().splitlines(), struck(report), *complaints(report)]
    if report.ok:
        lines.append("Every task has exactly the facts that it should have.")
    elif options.naive:
        lines.append(
            "This is what blind retries do. Without --naive, Ascertain meets the same faults."
        )
    else:
        lines.append("This is NOT as it should be.")
    if options.keep or not report.ok:
        lines.append(f"The logs are in {report.folder}")
    return lines


async def _stay(demonstration: Demonstration) -> None:
    """Say where everything is, and leave it up until a signal; the verdict stands."""
    from ascertain.cli.text import program
    from starter.demo.guarded import Guarded

    stack, folder = demonstration.stack, demonstration.report.folder
    output.note(f"Everything is still up; Ctrl-C ends it. Temporal's Web UI: {stack.ui_url}")
    output.note(f"localstripe: {stack.outside.url}/v1/charges (any key that begins with sk_test_)")
    if isinstance(stack.application, Guarded):
        file = folder / "environment"
        deployment = stack.application.deployment("person", stack.outside.url)
        named = stack.application.environment(deployment)
        exports = [f"export {name}={shlex.quote(value)}\n" for name, value in named.items()]
        file.touch(mode=0o600)  # it holds the ledger's password
        file.write_text("".join(exports), "utf-8")
        output.note(f"In another terminal: . {file} && {program()} explain {demonstration.example}")
    stopped = asyncio.Event()
    _on_signals(stopped.set)
    await stopped.wait()
