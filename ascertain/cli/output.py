"""What goes to standard output (the result, once) and to standard error (everything else)."""

from __future__ import annotations

import json
import os
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING, ClassVar, NoReturn

from ascertain.cli.text import as_typed, plain
from ascertain.errors import AscertainError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_WIDE = 10_000


class PipeClosed(Exception):
    """Nobody reads our standard output any more. Not an error."""


class Unwritable(AscertainError):
    """Standard output takes nothing: its disk is full. What the command did stands."""

    code: ClassVar[str] = "unwritable"


def never_fail_on_a_character() -> None:
    """Let a terminal that cannot show a character show its number instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def document(value: Mapping[str, object]) -> None:
    """Print the one JSON document of a command."""
    _write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def json_line(value: Mapping[str, object]) -> None:
    """Print one line of a stream of JSON documents, and let it be seen at once."""
    _write(json.dumps(value, allow_nan=False) + "\n")
    flush()


def line(text: str = "") -> None:
    """Print a line of the result."""
    _write(as_typed(text) + "\n")


def lines(texts: Iterable[str]) -> None:
    """Print lines of the result."""
    for text in texts:
        line(text)


def note(text: str) -> None:
    """Tell the person something that is not the result."""
    try:
        sys.stderr.write(as_typed(text) + "\n")
        sys.stderr.flush()
    except OSError:
        return


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, indent: int = 0) -> None:
    """Print a table whose cells are never cut short."""
    from rich.console import Console  # noqa: PLC0415 - not loaded for JSON
    from rich.padding import Padding  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        shown.add_column(heading, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(plain(cell)) for cell in row))
    # A pipe has no width: a line of a table stays one line there, whatever its length.
    console = Console(file=sys.stdout) if sys.stdout.isatty() else Console(width=_WIDE)
    with console.capture() as captured:
        console.print(Padding.indent(shown, indent))
    _write("".join(f"{text.rstrip()}\n" for text in captured.get().splitlines()))


def flush() -> None:
    """Let what was printed go out.

    Raises:
        PipeClosed: Nobody reads it.
        Unwritable: It cannot go out.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _close(error)


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
    except OSError as error:
        _close(error)


def _close(error: OSError) -> NoReturn:
    # The interpreter flushes standard output once more at its end, and must find somebody who reads.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        raise PipeClosed from error
    raise Unwritable(
        f"standard output cannot be written: {error.strerror}; what was done before stands"
    ) from error
