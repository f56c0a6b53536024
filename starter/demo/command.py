"""``demo``: the demonstration on the command line."""

from __future__ import annotations

import asyncio
import shlex
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from starter.demo.demonstration import SEED, Options, demonstrate
from starter.demo.guarded import Guarded
from starter.demo.payment import FEWEST
from starter.demo.report import complaints, struck, table
from starter.demo.show import show_on

if TYPE_CHECKING:
    from starter.demo.demonstration import Demonstration

_INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Add the command to the application's others."""
    app.command("demo")(demo)


def demo(
    *,
    tasks: Annotated[
        int | None, typer.Option(min=FEWEST, help="Only the first so many of the payments.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Of the faults: the same seed, the same faults.")
    ] = SEED,
    naive: Annotated[
        bool, typer.Option("--naive", help="Without Ascertain: the same faults make duplicates.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything up at the end, with the Web UI.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on the last line of the output.")
    ] = False,
) -> None:
    """Make real payments through real faults, then ask the outside what it has.

    120 payments go to a Stripe-compatible server that ignores idempotency keys, while answers are lost
    after the work is done, a worker is killed between an effect and its record, and another one is
    frozen past its time. Exits 0 only if every task has exactly the facts that it should have.
    """
    options = Options(tasks=tasks, seed=seed, naive=naive, keep=keep)
    try:
        code = asyncio.run(_main(options, as_json=as_json))
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = _INTERRUPTED
    raise typer.Exit(code)


async def _main(options: Options, *, as_json: bool) -> int:
    ourselves = asyncio.current_task()
    if ourselves is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ourselves.cancel)
    progress = Console(stderr=True)
    async with AsyncExitStack() as running:
        with show_on(progress) as show:
            demonstration = await running.enter_async_context(demonstrate(options, show))
        _print(demonstration, options, progress, as_json=as_json)
        code = 0 if demonstration.report.ok else 1
        if options.keep:
            await _stay(demonstration, progress)
    return code


def _print(
    demonstration: Demonstration, options: Options, progress: Console, *, as_json: bool
) -> None:
    """The verdict: on standard output, or beside it where that is for the JSON object."""
    report = demonstration.report
    told = progress if as_json else Console()
    told.print(table(report))
    for line in (struck(report), *complaints(report), _verdict(demonstration, options)):
        told.print(line, highlight=False, markup=False, soft_wrap=True)
    if options.keep or not report.ok:
        told.print(f"The logs are in {report.folder}.", highlight=False, soft_wrap=True)
    if as_json:
        typer.echo(report.line())


def _verdict(demonstration: Demonstration, options: Options) -> str:
    report = demonstration.report
    if report.ok:
        return "Every task has exactly the facts that it should have."
    if options.naive:
        return "This is what blind retries do. The same faults with Ascertain: the command without --naive."
    return f"NOT as it should be: {len(report.sentences)} things are wrong."


async def _stay(demonstration: Demonstration, progress: Console) -> None:
    """Say where everything is, and leave it up until somebody ends us."""
    stack, folder = demonstration.stack, demonstration.report.folder
    lines = [
        f"The stack is still up; Ctrl-C ends it. Temporal's Web UI: {stack.ui_url}",
        f"localstripe: {stack.outside.url}/v1/charges (any key that begins with sk_test_)",
    ]
    if isinstance(stack.application, Guarded):
        file = folder / "environment"
        deployment = stack.application.deployment("person", stack.outside.url)
        named = stack.application.environment(deployment)
        file.touch(mode=0o600)
        file.write_text(
            "".join(f"export {name}={shlex.quote(value)}\n" for name, value in named.items()),
            "utf-8",
        )
        lines.append(f"In another terminal: . {file} && ./run explain pay-0018")
    for line in lines:
        progress.print(line, highlight=False, markup=False, soft_wrap=True)
    await asyncio.Event().wait()
