"""``ascertain dev``, and what else starts things."""

# ruff: noqa: PLC0415 - each command imports what it needs when it runs, so that --help is quick
from __future__ import annotations

import asyncio
import shlex
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ascertain.cli import option, output

if TYPE_CHECKING:
    from ascertain.cli.stack import Stack

_MORE: Final = (
    "starter.relay_command",
    "starter.consumer_command",
    "starter.codec_command",
    "starter.import_command",
    "starter.demo.command",
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(dev)
    app.command()(examples)
    for module in _MORE:
        if find_spec(module) is not None:
            import_module(module).register(app)


def dev(
    *,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where everything is kept; else $ASCERTAIN_DATA, else a folder of this user. Other "
            "terminals find it by the variable.",
        ),
    ] = None,
    headless: Annotated[bool, typer.Option("--headless", help="Without the Web UI.")] = False,
    no_worker: Annotated[
        bool,
        typer.Option("--no-worker", help="Without a worker; start one with `ascertain worker`."),
    ] = False,
    config: option.Config = None,
    port_base: Annotated[
        int | None, typer.Option(metavar="N", help="Listen on N, N+1, N+2 and N+3, or not at all.")
    ] = None,
    env: Annotated[
        bool, typer.Option("--env", help="Print the variables of the running stack, and stop.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document when everything works.")
    ] = False,
) -> None:
    """Run Temporal with its Web UI, PostgreSQL and a worker, all in one place.

    Without a deployment file it serves examples/ascertain.toml and starts the toy outside world that this
    needs. Ctrl-C stops everything, and the next start goes on with the same data.
    """
    from ascertain.cli import stack as stacks

    place = (data or stacks.data_directory()).absolute()
    if env:
        _print_environment(place, as_json=as_json)
        return
    from starter.dev import run
    from starter.plan import Plan

    plan = Plan(place, config, headless, not no_worker, port_base)

    def on_ready(stack: Stack, log: Path | None) -> None:
        if as_json:
            output.document(_document(stack, place, log))
        else:
            usual = place == stacks.usual_directory().absolute()
            output.lines(_announcement(stack, place, log, usual=usual))
        output.flush()

    asyncio.run(run(plan, output.note, on_ready))


def examples(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run one task of each domain end to end: payment, mail, generation, media, rows, computation.

    Starts every server that they need, counts the facts in the outsides' own books, and stops everything.
    Exits with 0 only if every task is done and has exactly one fact.
    """
    from starter import example

    shown = asyncio.run(example.run(output.note))
    if as_json:
        output.document(example.document(shown))
    else:
        headings = ("task", "kind", "outcome", "outside", "facts")
        output.table(headings, [example.row(one) for one in shown])
    output.flush()
    raise typer.Exit(0 if all(one.ok for one in shown) else 1)


def _print_environment(place: Path, *, as_json: bool) -> None:
    from ascertain.cli import stack as stacks
    from ascertain.errors import SetupError
    from starter.dev import exports

    stack = stacks.running(place)
    if stack is None:
        raise SetupError(f"no development stack runs on {place}; start one with `ascertain dev`")
    if as_json:
        output.document(_document(stack, place, None))
    else:
        output.lines(exports(stack))


def _document(stack: Stack, place: Path, log: Path | None) -> dict[str, object]:
    return {
        **asdict(stack),
        "data": str(place),
        "worker_log": str(log) if log is not None else None,
        "environment": stack.environment,
    }


def _announcement(stack: Stack, place: Path, log: Path | None, *, usual: bool) -> list[str]:
    from ascertain.cli.stack import DATA_VARIABLE
    from ascertain.cli.text import program
    from starter.dev import exports
    from starter.plan import FIRST_TASK

    call = program()
    shown = {
        "Web UI": stack.ui_url or "none (--headless)",
        "Temporal": f"{stack.temporal_address}, namespace {stack.namespace}",
        "Ledger": stack.ledger_url,
        "Outside": f"{stack.outside_url}/facts (a toy)" if stack.outside_url else "as deployed",
        "Deployment": stack.config,
        "Worker": f"log in {log}" if log is not None else f"none; start one with `{call} worker`",
        "Data": str(place),
    }
    lines = ["The development stack is ready.", ""]
    lines += [f"  {name:<12}{value}" for name, value in shown.items()]
    lines += ["", "In another terminal:", ""]
    if not usual:  # else each of them would look for the usual one, and find none or another
        lines.append(f"  export {DATA_VARIABLE}={shlex.quote(str(place))}")
    if stack.outside_url is not None:
        lines += [f"  {call} submit {_near(FIRST_TASK)} --wait", f"  {call} explain first-1"]
    lines += [f"  {call} list", "", "For programs of your own:", ""]
    lines += [f"  {line}" for line in exports(stack)]
    return [*lines, "", "Ctrl-C stops it; the data stay."]


def _near(path: Path) -> str:
    """A path as short as it can be typed from here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
