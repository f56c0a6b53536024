"""Tasks from a file or a pipe: one JSON document, or one a line. Never more than a line in memory."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from ascertain.errors import InvalidTask

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
STANDARD_INPUT: Final = "standard input"
STREAM_SUFFIXES: Final = frozenset({".jsonl", ".ndjson"})

_CHUNK_BYTES: Final = 64 * 1024
_MARK: Final = b"\xef\xbb\xbf"


class NotJson(InvalidTask):
    """A text is not JSON.

    Attributes:
        line: Of the text, from 1.
        column: Where in that line it begins to be none, from 1.
    """

    def __init__(self, why: str, line: int, column: int) -> None:
        super().__init__(why)
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Entry:
    """One task as it was written.

    Attributes:
        number: Of the line, from 1.
        text: None if the line is longer than is read.
        source: Where it was written, as a person calls it.
        alone: One document rather than one of many lines.
    """

    number: int
    text: bytes | None
    source: str = STANDARD_INPUT
    alone: bool = False

    def place(self, error: BaseException | None = None) -> str:
        """Where it stands, and where in it an error is: FILE, FILE:LINE or FILE:LINE:COLUMN."""
        if isinstance(error, NotJson):
            return f"{self.source}:{self.number + error.line - 1}:{error.column}"
        return self.source if self.alone else f"{self.source}:{self.number}"

    def parse(self) -> dict[str, JsonValue]:
        """The JSON object that it holds.

        Raises:
            InvalidTask: It is too long, not JSON, or not an object; the message does not show it.
        """
        if self.text is None:
            raise InvalidTask(f"longer than {MAX_LINE_BYTES} bytes")
        return parse(self.text)


@dataclass(frozen=True, slots=True)
class Intake:
    """What a source holds.

    Attributes:
        single: One document rather than one a line.
        name: Of the file; None: it is standard input.
    """

    single: bool
    entries: AsyncIterator[Entry]
    name: Path | None = None


async def read(descriptor: int, name: Path | None = None, *, stream: bool = False) -> Intake:
    """Look at the beginning of a source and tell what it holds.

    Args:
        descriptor: To read from; a file, a pipe or a terminal.
        name: Of the file, whose ending may tell.
        stream: Whether the caller knows that it is one task a line.

    Raises:
        InvalidTask: It is empty, or one document that is too long.
    """
    lines = _entries(descriptor, STANDARD_INPUT if name is None else str(name))
    first = await anext(lines, None)
    if first is None:
        raise InvalidTask("nothing to submit: the input is empty")
    if stream or (name is not None and name.suffix.lower() in STREAM_SUFFIXES):
        return Intake(single=False, entries=_chain([first], lines), name=name)
    if first.text is not None and _is_unfinished(first.text):
        return Intake(single=True, entries=_chain([await _whole(first, lines)], None), name=name)
    second = await anext(lines, None)
    if second is None:
        return Intake(single=True, entries=_chain([replace(first, alone=True)], None), name=name)
    return Intake(single=False, entries=_chain([first, second], lines), name=name)


def parse(text: bytes) -> dict[str, JsonValue]:
    """The one JSON object in a text.

    Raises:
        InvalidTask: It holds something else, a name twice in one object, NaN or an infinity.
    """
    try:
        value: object = json.loads(
            # An end that is missing is missing in this line and not in the next.
            text.decode("utf-8").rstrip(" \t\r\n"),
            object_pairs_hook=_distinct,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise NotJson(f"not JSON: {error.msg.lower()}", error.lineno, error.colno) from None
    except UnicodeDecodeError as error:
        line = 1 + text.count(b"\n", 0, error.start)
        column = error.start - text.rfind(b"\n", 0, error.start)
        raise NotJson("not UTF-8: this byte cannot be read", line, column) from None
    except RecursionError:
        raise InvalidTask("not a task: nested too deeply") from None
    except ValueError as error:  # a number with thousands of digits, or one of our two hooks
        raise InvalidTask(f"not a task: {error}") from None
    if not isinstance(value, dict):
        kind = "a list; write one task a line" if isinstance(value, list) else "no JSON object"
        raise InvalidTask(f"not a task: this is {kind}")
    return cast("dict[str, JsonValue]", value)


def _distinct(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice[:60]!r} stands twice in one object")
    return found


def _refuse_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is not a JSON number")


def _is_unfinished(text: bytes) -> bool:
    """Whether this is the first line of a document that goes on: no JSON string spans two lines."""
    shown = text.decode("utf-8", errors="replace").rstrip()
    try:
        json.loads(shown)
    except json.JSONDecodeError as error:
        return error.pos >= len(shown)
    except (ValueError, RecursionError):
        return False
    return False


async def _whole(first: Entry, lines: AsyncIterator[Entry]) -> Entry:
    """One document, with its blank lines, so that an error names the right one."""
    text, newlines = bytearray(), first.number - 1
    entry: Entry | None = first
    while entry is not None:
        if entry.text is None or len(text) > MAX_LINE_BYTES:
            return replace(first, text=None, alone=True)
        text += b"\n" * (entry.number - 1 - newlines) + entry.text
        newlines = entry.number
        entry = await anext(lines, None)
    return replace(first, text=bytes(text), alone=True)


async def _chain(begun: list[Entry], rest: AsyncIterator[Entry] | None) -> AsyncIterator[Entry]:
    for entry in begun:
        yield entry
    if rest is not None:
        async for entry in rest:
            yield entry


async def _entries(descriptor: int, source: str) -> AsyncIterator[Entry]:
    """The lines that are not blank, with their line ends."""
    number = 0
    async for text in _lines(descriptor):
        number += 1
        if number == 1 and text is not None:
            text = text.removeprefix(_MARK)  # noqa: PLW2901 - some editors begin a file with it
        if text is None or text.strip():
            yield Entry(number, text, source)


async def _lines(descriptor: int) -> AsyncIterator[bytes | None]:
    """All lines; None for one that is longer than is kept."""
    held = bytearray()
    too_long = False
    async for chunk in _chunks(descriptor):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            held += part
            too_long = too_long or len(held) > MAX_LINE_BYTES
            yield None if too_long else bytes(held) + b"\n"
            held.clear()
            too_long = False
        held += rest
        if len(held) > MAX_LINE_BYTES:
            too_long = True
            held.clear()
    if too_long or held:
        yield None if too_long else bytes(held)


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    """What can be read, as it comes. A pipe is left alone while nobody asks for more of it."""
    can_wait = True
    while True:
        if can_wait:
            can_wait = await _readable(descriptor)
        chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


async def _readable(descriptor: int) -> bool:
    """Wait until a read does not block; False for a plain file, which cannot be waited for."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except OSError:
        return False
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    return True
