"""The options that several commands share."""

from __future__ import annotations

import getpass
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from uuid import uuid4

import typer

if TYPE_CHECKING:
    from collections.abc import Collection

_LENGTH: Final = re.compile(r"(?P<count>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h|d)?")
_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


def length(text: str | timedelta) -> timedelta:
    """A length of time: a number of seconds, or a number with ``ms``, ``s``, ``m``, ``h`` or ``d``."""
    if isinstance(text, timedelta):  # a default comes through here too
        return text
    found = _LENGTH.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no length of time such as 30, 90s, 5m or 2h")
    return float(found["count"]) * _UNITS[found["unit"] or "s"]


def moment(text: str | datetime) -> datetime:
    """A moment: ISO 8601 with its offset from UTC (``Z`` is none), or a length of time ago."""
    if isinstance(text, datetime):
        return text
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return datetime.now(UTC) - length(text)
    if found.tzinfo is None:
        raise typer.BadParameter(f"{text!r} names no time zone: add Z for UTC")
    return found


def address(given: str | None) -> str | None:
    """Where to listen: ``HOST:PORT``.

    Raises:
        BadParameter: It is no such address.
    """
    if given is not None:
        from ascertain.errors import InvalidSettings  # noqa: PLC0415 - costs what --help need not pay
        from ascertain.exposition import split  # noqa: PLC0415

        try:
            split(given)
        except InvalidSettings as error:
            raise typer.BadParameter(str(error)) from error
    return given


def apart(context: typer.Context, names: Collection[str], why: str) -> None:
    """Refuse options that would be passed over, given as the others are.

    Args:
        context: The command, as it was typed.
        names: The parameters that do not fit.
        why: What is told of those of them that were typed.

    Raises:
        BadParameter: One of them was typed.
    """
    typed = [
        param.opts[0]
        for param in context.command.params
        if param.name in names and _was_typed(context, param.name)
    ]
    if typed:
        raise typer.BadParameter(f"{' and '.join(typed)} would be passed over, {why}")


def _was_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def operator_name(given: str | None) -> str:
    """Who gives a command: as said, or the user of this machine.

    Raises:
        BadParameter: Nobody said, and the machine does not know either.
    """
    if given is not None:
        return given
    try:
        return os.environ.get("USER") or getpass.getuser()
    except (KeyError, OSError):
        raise typer.BadParameter("who are you? Say --operator NAME") from None


def request_id(given: str | None) -> str:
    """By which a repeat of a command is known: as said, or one that no other command has."""
    return given if given is not None else f"cli-{uuid4().hex}"


def unused(file: Path, *, force: bool) -> Path:
    """A file that is written now: a new one, unless somebody said that it may be replaced.

    Raises:
        BadParameter: It is there, and nobody said so.
    """
    if file.exists() and not force:
        raise typer.BadParameter(
            f"{file} is there already: name another FILE, or say --force to replace it"
        )
    return file


def write(file: Path, text: str) -> None:
    """Write a file that an option names.

    Raises:
        BadParameter: It cannot be written.
    """
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise typer.BadParameter(f"cannot write {file}: {error.strerror}") from error


Task = Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")]
Case = Annotated[
    str, typer.Argument(metavar="TASK", help="The task's id, or that of an effect of it.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The deployment file; else $ASCERTAIN_CONFIG, else ./ascertain.toml if it is there.",
    ),
]
Within = Annotated[
    timedelta | None,
    typer.Option(parser=length, metavar="TIME", help="Wait at most so long: 30, 90s, 5m, 2h."),
]
Ramp = Annotated[
    timedelta | None,
    typer.Option(
        parser=length,
        metavar="TIME",
        help="Open little by little over so long (10m, 2h); at once if left out.",
    ),
]
Operator = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Who says so; the user of this machine if left out."),
]
RequestId = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="A repeat with the same id changes nothing; made up if left out.",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", callback=address, help="Serve /metrics, /live and /ready here."
    ),
]
Why = Annotated[str, typer.Option("--reason", help="Why; kept for ever.")]
Force = Annotated[bool, typer.Option("--force", help="Replace FILE if it is there already.")]
# The pace of a replay.
Canary = Annotated[int, typer.Option(min=1, max=1000, help="Items of the replay's first batch.")]
Batch = Annotated[int, typer.Option(min=1, max=1000, help="Items of each later batch.")]
Rate = Annotated[float, typer.Option(min=0.01, max=1000, help="Most items told to go on a second.")]
AskRate = Annotated[
    float | None,
    typer.Option(min=0.01, max=1000, help="Most items asked for a second; else as --rate."),
]
StopShare = Annotated[
    float, typer.Option(min=0, max=1, help="Pause the replay at a larger share of errors.")
]
