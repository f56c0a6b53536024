"""The whole command: what it is made of, and what becomes of every error.

The operator commands are always there. The application's commands join in where the application can be
imported, which a checkout and an image can and an installed wheel cannot.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Final

import typer

from ascertain.cli import (
    conform_command,
    failure,
    gate_command,
    incident_command,
    output,
    replay_command,
    setup_command,
    snapshot_command,
    stream_command,
    task_command,
    upkeep_command,
)
from ascertain.cli.filled import FilledGroup

NAME: Final = "ascertain"
APPLICATION: Final = ("workers.command", "starter.command", "drill.command")
DEBUG: Final = "--debug"
DEBUG_VARIABLE: Final = "ASCERTAIN_DEBUG"


def build() -> typer.Typer:
    """The command with everything that can be found here."""
    app = typer.Typer(
        name=NAME,
        cls=FilledGroup,
        help="Tasks whose effects outside exist exactly once or provably not at all.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_root)
    for commands in (
        task_command,
        stream_command,
        gate_command,
        snapshot_command,
        upkeep_command,
        replay_command,
        incident_command,
        conform_command,
        setup_command,
    ):
        commands.register(app)
    for module in APPLICATION:
        if _exists(module):
            import_module(module).register(app)
    return app


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. Nothing gets past this.

    Args:
        arguments: Without the program's name; None takes them from this process.
    """
    output.never_fail_on_a_character()
    given = list(sys.argv[1:] if arguments is None else arguments)
    before, words = _split(given)
    debug = DEBUG in before or bool(os.environ.get(DEBUG_VARIABLE))
    words = [word for word in before if word != DEBUG] + words
    try:
        code = build()(words, prog_name=NAME, standalone_mode=False)
        output.flush()
    except output.PipeClosed:
        return failure.PIPE_CLOSED
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last that can tell a person
        if debug:
            traceback.print_exc()
        return failure.report(error, as_json="--json" in before)
    if code == failure.INTERRUPTED:  # typer makes an exit code of Ctrl-C, and says nothing
        output.note(failure.INTERRUPTION)
    return code if isinstance(code, int) else 0


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What stands before and after ``--``, where options end."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end:]


def _root(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show where an error comes from. May stand anywhere.")
    ] = False,
) -> None:
    """Tasks whose effects outside exist exactly once or provably not at all."""
    del debug  # taken off before parsing, so that it may stand anywhere; here for the help
    if version:
        from ascertain.cli.version import version_of  # noqa: PLC0415 - costs what --help need not pay

        output.line(version_of("ascertain"))
    elif context.invoked_subcommand is None:
        output.line(context.get_help())


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its package is not there
        return False
