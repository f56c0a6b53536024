"""Writes the reference pages of the command line from the command itself: python -m tests.cli.reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ascertain.cli import failure
from ascertain.cli.program import build

DOCS = Path(__file__).parents[2] / "docs" / "reference"

ABOUT = """# Command line

`./run` in a checkout, `ascertain` where it is installed: the operator's commands everywhere, those of the
application (`worker` and what follows it) where the application can be imported. This page is made from the
command itself; `--help` after any command says the same.

The result goes to standard output and everything else to standard error. With `--json` the result is exactly
one JSON document, also for an error: `{"error": {"code", "message", "exit_code"}}`. What an exit code means
stands in [exit codes](exit-codes.md). `--debug`, anywhere, shows where an error comes from.

Where everything is, is found in this order: the command line; `ASCERTAIN_CONFIG`, `ASCERTAIN_LEDGER_URL` and
the variables or the profile file of Temporal's own clients (`TEMPORAL_ADDRESS` ...); the deployment file.
Only if nothing names a server or a ledger, the development stack is used that runs on `ASCERTAIN_DATA` or,
without that, in this user's usual folder. If `ASCERTAIN_DATA` names one that does not run, that is an error;
otherwise a server at `localhost:7233` is tried, and said so.
"""

CODES = """# Exit codes

| code | meaning |
|---|---|
{rows}

The error's `code` in `--json` output is finer than the exit code: {codes}.
"""


def command_line() -> str:
    """``cli.md``."""
    group: Any = typer.main.get_command(build())
    return "\n".join([ABOUT, *_commands(group)])


def exit_codes() -> str:
    """``exit-codes.md``."""
    rows = "\n".join(f"| {code} | {meaning} |" for code, meaning in failure.EXIT_CODES.items())
    codes = sorted({error.code for error in all_errors()} | {"usage", "unexpected"})
    return CODES.format(rows=rows, codes=", ".join(f"`{code}`" for code in codes))


def all_errors() -> set[type[Any]]:
    """Every error of ours."""
    import ascertain.client
    import ascertain.ledger.audit
    import ascertain.snapshot.archive  # noqa: F401 - they define errors of their own
    from ascertain.errors import AscertainError

    found: set[type[Any]] = set()
    todo: list[type[Any]] = [AscertainError]
    while todo:
        error = todo.pop()
        todo += error.__subclasses__()
        if error.__module__.startswith("ascertain."):
            found.add(error)
    return found


def _commands(group: Any, of: str = "") -> list[str]:
    """The parts of a group: its commands, and those of the groups in it under both names."""
    parts: list[str] = []
    for name, command in group.commands.items():
        inner = hasattr(command, "commands")
        parts += _commands(command, f"{name} ") if inner else [_command(of + name, command)]
    return parts


def _command(name: str, command: Any) -> str:
    usage, options = [name], []
    for param in command.params:
        if param.name == "help":
            continue
        if param.param_type_name == "argument":
            shown = param.metavar or param.name.upper()
            usage.append(shown if param.required else f"[{shown}]")
        elif param.required:
            usage.append(f"{param.opts[0]} {_value(param)}")
        options.append(f"| {_names(param)} | {param.help or ''} |")
    text = " ".join(command.help.split("\n\n", 1)[0].split())
    more = "".join(f"\n\n{' '.join(part.split())}" for part in command.help.split("\n\n")[1:])
    table = "\n".join(["| | |", "|---|---|", *options])
    return f"## {name}\n\n`ascertain {' '.join(usage)}`\n\n{text}{more}\n\n{table}\n"


def _names(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{param.metavar or param.name.upper()}`"
    names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    return names if param.is_flag else f"{names} `{_value(param)}`"


def _value(param: Any) -> str:
    return param.metavar or param.name.upper()


if __name__ == "__main__":
    DOCS.mkdir(parents=True, exist_ok=True)
    (DOCS / "cli.md").write_text(command_line())
    (DOCS / "exit-codes.md").write_text(exit_codes())
