"""``ascertain submit --bulk`` and ``ascertain stream``: many small tasks in one stream."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import typer

from ascertain.cli import intake, output, place, replay, stream_hold, wording
from ascertain.cli.contradiction import Contents
from ascertain.cli.failure import leaving, words_of
from ascertain.cli.filled import EMPTY
from ascertain.cli.listing import checked_name
from ascertain.cli.progress import Progress
from ascertain.cli.submit import named, opened
from ascertain.contracts import names
from ascertain.door import admit
from ascertain.errors import Conflict, InputError, NotFound
from ascertain.keys import task_fingerprint
from ascertain.stream import Stream, Terms

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Generator, Iterator

    from ascertain.contracts.replay import Say
    from ascertain.contracts.stream import StreamProgress
    from ascertain.contracts.task import Task

# Four chunks are under way at a time, and may reach a worker in one message of at most four megabytes.
CHUNK_BYTES: Final = 512 * 1024
# The first of those that were not begun; --json has more.
_NAMED: Final = 5
_AGAIN: Final = "Stopped half-way. Run the same again: what was done is recognised."


@dataclass(frozen=True, slots=True)
class Campaign:
    """How a source is carried.

    Attributes:
        name: Of the stream.
        per_second: Most tasks begun in a second; None: as fast as they come.
        chunk: Tasks that are claimed together at most.
    """

    name: str
    per_second: float | None = None
    chunk: int = 100


async def bulk(source: str, campaign: Campaign, config: Path | None, *, as_json: bool) -> int:
    """Carry what a file or standard input holds, one task a line, and print what became of all.

    Every line is looked at before the first task begins: chunks are told by their place, so what is fed under
    one name must be the same from beginning to end.

    Returns:
        0 if every task is settled, refused by the outside, given up before or handed over; 2 if a line was
        no task or contradicts one before it, and nothing was begun; 3 if an id was used before for other
        content.

    Raises:
        BadParameter: No stream is called so.
        Conflict: A stream of this name carries other tasks.
        AscertainError: It stopped half-way; the same again goes on.
    """
    checked_name(campaign.name, "stream")
    where = place.find(config)
    progress = Progress()
    with opened(source) as descriptor, _seekable(descriptor) as file:
        name = named(source)
        looked = await _look(_entries(file, name), where.kinds, progress)
        if looked.refused:
            output.note(
                f"{looked.refused} lines are refused, so nothing was begun. Mend them, and run it again."
            )
            return InputError.exit_code
        stream = Stream(await where.client(kinds=where.kinds), campaign.name)
        chunk = looked.chunk(campaign.chunk)
        with leaving(_AGAIN):
            open_yet = await stream.open(
                per_second=campaign.per_second,
                content=looked.fingerprint,
                chunk=chunk,
            )
            terms = await stream.terms()
        if open_yet and campaign.per_second not in {None, terms.per_second}:
            _note_of_rate(campaign, terms)
        tasks = _tasks(_entries(file, name), where.kinds, looked)
        with leaving(_AGAIN, Exception):
            watching = asyncio.create_task(stream_hold.watch(stream, where, progress.say))
            try:
                ended = (
                    await _carry(stream, tasks, chunk, progress)
                    if open_yet
                    else await stream.result()
                )
            finally:
                watching.cancel()
    _print(campaign.name, ended, terms, as_json=as_json, dated=looked.dated)
    counted = ended.tally.tasks
    if counted != looked.lines:
        output.note(
            f"The stream counts {counted} tasks where {source} holds {looked.lines}: it was closed before "
            "all was fed, or another release fed a part in chunks of another size. "
            f"`ascertain submit {source}` begins what of them was never begun, and recognises the others."
        )
        return Conflict.exit_code
    return Conflict.exit_code if ended.tally.conflicting else 0


def _note_of_rate(campaign: Campaign, terms: Terms) -> None:
    kept = "no rate" if terms.per_second is None else f"its rate of {terms.per_second:g} a second"
    output.note(
        f"Stream {campaign.name} was begun before and keeps {kept}: that cannot be changed. For another one "
        f'`ascertain stream pause {campaign.name} --reason "WHY"`, and carry the same under another name; '
        "what is done is recognised."
    )


@contextmanager
def _seekable(descriptor: int) -> Generator[BinaryIO]:
    """The same bytes, fit for being read twice: a pipe is written to a file without a name first."""
    with os.fdopen(descriptor, "rb", closefd=False) as given:
        if given.seekable():
            yield given
            return
        with tempfile.TemporaryFile() as kept:
            shutil.copyfileobj(given, kept)
            kept.flush()
            yield kept


@dataclass(slots=True)
class Looked:
    """What all lines hold, before any of them is begun.

    Attributes:
        refused: Lines that are no tasks, or contradict others.
        lines: All others.
        largest: The bytes of the longest line.
        dated: Whether any task has a deadline.
    """

    contents: Contents = field(default_factory=Contents)
    refused: int = 0
    lines: int = 0
    largest: int = 1
    dated: bool = False
    _seen: bytearray = field(default_factory=bytearray)

    @property
    def fingerprint(self) -> str:
        """Of all tasks, in their order."""
        return hashlib.sha256(self._seen).hexdigest()

    def add(self, entry: intake.Entry, task: Task) -> None:
        """Take in a line.

        Raises:
            InvalidTask: It contradicts one before it.
        """
        self._seen += self.contents.add(entry.number, task).encode()
        self.lines += 1
        self.dated = self.dated or task.deadline is not None
        self.largest = max(self.largest, len(entry.text or b""))

    def holds(self, number: int, task: Task) -> bool:
        """Whether the task of this number, from 0, is that one."""
        size = len(fingerprint := task_fingerprint(task))
        return self._seen[number * size : (number + 1) * size].decode() == fingerprint

    def chunk(self, wanted: int) -> int:
        """How many tasks go to Temporal together, which takes no more than a few megabytes at a time."""
        return max(1, min(wanted, CHUNK_BYTES // self.largest))


async def _look(
    entries: AsyncIterator[intake.Entry], kinds: Collection[str] | None, progress: Progress
) -> Looked:
    """What the lines hold; each that is refused is told."""
    looked = Looked()
    async for entry in entries:
        try:
            looked.add(entry, admit(entry.parse(), kinds))
        except InputError as error:
            looked.refused += 1
            progress.say(f"{entry.place(error)}: refused: {words_of(error)}")
    return looked


async def _tasks(
    entries: AsyncIterator[intake.Entry], kinds: Collection[str] | None, looked: Looked
) -> AsyncIterator[Task]:
    """The tasks that were looked at, of a file that may be written anew meanwhile.

    Raises:
        Conflict: It holds others now; what was begun of it is what was looked at.
    """
    lines = 0
    async for entry in entries:
        task = admit(entry.parse(), kinds)
        if not looked.holds(lines, task):
            raise _rewritten(entry.place())
        lines += 1
        yield task
    if lines != looked.lines:
        raise _rewritten(f"line {lines} is the last")


def _rewritten(where: str) -> Conflict:
    return Conflict(
        f"{where}: the file was changed while it was carried. The stream takes what was there first: put "
        "that back, and run the same again; give what is new a name of its own"
    )


async def _entries(file: BinaryIO, name: Path | None) -> AsyncIterator[intake.Entry]:
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    found = await intake.read(file.fileno(), name, stream=True)
    async for entry in found.entries:
        yield entry


async def _carry(
    stream: Stream, tasks: AsyncIterator[Task], chunk: int, progress: Progress
) -> StreamProgress:
    try:
        async for done in stream.carry(tasks, chunk=chunk):
            progress.show(f"{done} tasks done")
        return await stream.close()
    finally:
        progress.clear()


async def status(name: str, config: Path | None, *, as_json: bool) -> None:
    """Print how far a stream is."""
    stream = Stream(await place.find(config).client(), name)
    with _known(stream):
        await _show(stream, as_json=as_json)


@contextmanager
def _known(stream: Stream) -> Generator[None]:
    """A stream without a name may have been begun before; where there is none, no name was said.

    Raises:
        BadParameter: That is so.
    """
    try:
        yield
    except NotFound:
        if stream.name.strip():
            raise
        raise typer.BadParameter(f"the stream's name: {EMPTY}") from None


async def steer(name: str, word: Say, config: Path | None, *, paused: bool, as_json: bool) -> None:
    """Pause or resume a stream, and print how far it is.

    Raises:
        CommandRefused: It is so already.
        NotFound: There is no such stream; ``AlreadyOver``: it is over.
        TemporalDown: It is not known whether it is applied; says how to repeat it.
    """
    stream = Stream(await place.find(config).client(), name)
    with _known(stream), replay.repeatable(names.PAUSE if paused else names.RESUME, word):
        await (stream.pause(word) if paused else stream.resume(word))
    await _show(stream, as_json=as_json)


async def _show(stream: Stream, *, as_json: bool) -> None:
    progress, terms = await stream.progress(), await stream.terms()
    _print(stream.name, progress, terms, as_json=as_json)
    if as_json:
        return
    rate = "no rate" if terms.per_second is None else f"a rate of {terms.per_second:g} a second"
    size = "the size that it is fed" if terms.chunk is None else f"{terms.chunk} tasks at most"
    output.line(f"It was begun with {rate}, and chunks of {size}.")


def _print(
    name: str, progress: StreamProgress, terms: Terms, *, as_json: bool, dated: bool = True
) -> None:
    if as_json:
        output.document({"stream": name, **asdict(terms), **progress.model_dump(mode="json")})
        return
    tally = progress.tally
    parts = [
        f"{tally.tasks} tasks",
        f"{tally.settled} settled",
        f"{tally.refused} refused by the outside",
        f"{tally.handed_over} handed over to tasks of their own",
        f"{tally.conflicting} conflicting",
        *([f"{tally.abandoned} given up before"] if tally.abandoned else []),
    ]
    output.line(f"Stream {name}: {', '.join(parts)}.")
    if progress.paused:
        output.line(f'It is paused; go on with `ascertain stream resume {name} --reason "WHY"`.')
    if progress.said is not None:
        output.line(wording.sentence(f"The last word to it was of {progress.said}"))
    if progress.held:
        output.line(f"Held by paused partitions: {', '.join(progress.held)}.")
    if progress.handed_over:
        first = progress.handed_over[0]
        output.line(f"Look at the first that was handed over: `ascertain explain {first}`.")
    if progress.conflicting:
        output.lines(_conflicts(progress, dated=dated))


def _conflicts(progress: StreamProgress, *, dated: bool) -> Iterator[str]:
    """Which tasks were not begun, why, and what to do."""
    named = progress.conflicting[:_NAMED]
    more = progress.tally.conflicting - len(named)
    late, later = (" or its deadline had passed", " or a later deadline") if dated else ("", "")
    yield (
        f"Not begun, because the id was used before for other content, which stands{late}: "
        f"{', '.join(named)}{f' and {more} more' if more else ''}."
    )
    yield (
        f"`ascertain explain {named[0]}` tells what stands under the first. Give what is new an id of its own"
        f"{later}, and carry it in another file and under another name."
    )
