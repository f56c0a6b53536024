"""``ascertain submit --bulk`` and ``ascertain stream``: many small tasks in one stream."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from ascertain.cli import intake, output, place, replay, wording
from ascertain.cli.contradiction import Contents
from ascertain.cli.failure import leaving, words_of
from ascertain.cli.progress import Progress
from ascertain.cli.submit import named, opened
from ascertain.contracts import names
from ascertain.door import admit
from ascertain.errors import Conflict, InputError
from ascertain.stream import Stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Generator

    from ascertain.contracts.replay import Say
    from ascertain.contracts.stream import StreamProgress
    from ascertain.contracts.task import Task

_AGAIN: Final = "Stopped half-way. Run the same again: what was done is recognised."


@dataclass(frozen=True, slots=True)
class Campaign:
    """How a source is carried.

    Attributes:
        name: Of the stream.
        per_second: Most tasks begun in a second; None: as fast as they come.
        chunk: Tasks that are claimed together; never more than begin in a second.
    """

    name: str
    per_second: float | None = None
    chunk: int = 100


async def bulk(source: str, campaign: Campaign, config: Path | None, *, as_json: bool) -> int:
    """Carry what a file or standard input holds, one task a line, and print what became of all.

    Every line is looked at before the first task begins: chunks are told by their place, so what is fed under
    one name must be the same from beginning to end.

    Returns:
        0 if every task is settled, refused by the outside or handed over; 2 if a line was no task or
        contradicts one before it, and nothing was begun; 3 if an id was used before for other content.

    Raises:
        Conflict: A stream of this name carries other tasks.
        AscertainError: It stopped half-way; the same again goes on.
    """
    where = place.find(config)
    progress = Progress()
    with opened(source) as descriptor, _seekable(descriptor) as file:
        name = named(source)
        refused, content = await _look(_entries(file, name), where.kinds, progress)
        if refused:
            output.note(
                f"{refused} lines are refused, so nothing was begun. Mend them, and run it again."
            )
            return InputError.exit_code
        stream = Stream(await where.client(kinds=where.kinds), campaign.name)
        with leaving(_AGAIN):
            open_yet = await stream.open(
                per_second=campaign.per_second, content=content, chunk=campaign.chunk
            )
        tasks = _tasks(_entries(file, name), where.kinds)
        with leaving(_AGAIN, Exception):
            ended = (
                await _carry(stream, tasks, campaign, progress)
                if open_yet
                else await stream.result()
            )
    _print(campaign.name, ended, as_json=as_json)
    return Conflict.exit_code if ended.tally.conflicting else 0


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


async def _look(
    entries: AsyncIterator[intake.Entry], kinds: Collection[str] | None, progress: Progress
) -> tuple[int, str]:
    """How many lines are refused, each of which is told, and the fingerprint of the others."""
    refused = 0
    seen, contents = hashlib.sha256(), Contents()
    async for entry in entries:
        try:
            seen.update(contents.add(entry.number, admit(entry.parse(), kinds)).encode())
        except InputError as error:
            refused += 1
            progress.say(f"{entry.place(error)}: refused: {words_of(error)}")
    return refused, seen.hexdigest()


async def _tasks(
    entries: AsyncIterator[intake.Entry], kinds: Collection[str] | None
) -> AsyncIterator[Task]:
    async for entry in entries:
        yield admit(entry.parse(), kinds)


async def _entries(file: BinaryIO, name: Path | None) -> AsyncIterator[intake.Entry]:
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    found = await intake.read(file.fileno(), name, stream=True)
    async for entry in found.entries:
        yield entry


async def _carry(
    stream: Stream, tasks: AsyncIterator[Task], campaign: Campaign, progress: Progress
) -> StreamProgress:
    try:
        async for done in stream.carry(tasks, chunk=campaign.chunk):
            progress.show(f"{done} tasks done")
        return await stream.close()
    finally:
        progress.clear()


async def status(name: str, config: Path | None, *, as_json: bool) -> None:
    """Print how far a stream is."""
    stream = Stream(await place.find(config).client(), name)
    _print(name, await stream.progress(), as_json=as_json)


async def steer(name: str, word: Say, config: Path | None, *, paused: bool, as_json: bool) -> None:
    """Pause or resume a stream, and print how far it is.

    Raises:
        CommandRefused: It is so already.
        NotFound: There is no such stream; ``AlreadyOver``: it is over.
        TemporalDown: It is not known whether it is applied; says how to repeat it.
    """
    stream = Stream(await place.find(config).client(), name)
    with replay.repeatable(names.PAUSE if paused else names.RESUME, word):
        await (stream.pause(word) if paused else stream.resume(word))
    _print(name, await stream.progress(), as_json=as_json)


def _print(name: str, progress: StreamProgress, *, as_json: bool) -> None:
    if as_json:
        output.document({"stream": name, **progress.model_dump(mode="json")})
        return
    tally = progress.tally
    parts = [
        f"{tally.tasks} tasks",
        f"{tally.settled} settled",
        f"{tally.refused} refused by the outside",
        f"{tally.handed_over} handed over to tasks of their own",
        f"{tally.conflicting} conflicting",
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
    for task_id in progress.conflicting:
        output.line(
            f"Not begun: {task_id}; its id was used before for other content, or its deadline had passed."
        )
