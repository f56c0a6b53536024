"""``ascertain submit --bulk`` and ``ascertain stream``: many small tasks in one stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ascertain.cli import intake, output, place
from ascertain.cli.failure import words_of
from ascertain.cli.progress import Progress
from ascertain.cli.submit import opened
from ascertain.door import admit
from ascertain.errors import Conflict, InputError
from ascertain.stream import Stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from ascertain.contracts.stream import StreamProgress
    from ascertain.contracts.task import Task


@dataclass(frozen=True, slots=True)
class Campaign:
    """How a source is carried.

    Attributes:
        name: Of the stream.
        per_second: Most tasks begun in a second; None: as fast as they come.
        chunk: Tasks that are claimed together.
    """

    name: str
    per_second: float | None = None
    chunk: int = 100


@dataclass(slots=True)
class _Door:
    """Lets tasks through in their order, and tells of every line that it refuses."""

    kinds: Collection[str] | None
    progress: Progress
    refused: int = 0
    _codes: set[int] = field(default_factory=set[int])

    async def admitted(self, found: intake.Intake) -> AsyncIterator[Task]:
        async for entry in found.entries:
            try:
                yield admit(entry.parse(), self.kinds)
            except InputError as error:
                self.refused += 1
                self.progress.say(f"line {entry.number}: refused: {words_of(error)}")


async def bulk(source: str, campaign: Campaign, config: Path | None, *, as_json: bool) -> int:
    """Carry what a file or standard input holds, one task a line, and print what became of all.

    Returns:
        0 if every line is settled, refused by the outside or handed over; 2 if a line was no task; 3 if
        an id stands for other content.

    Raises:
        Conflict: A stream of this name is closed.
        AscertainError: It stopped half-way; the same again goes on.
    """
    where = place.find(config)
    progress = Progress()
    with opened(source) as descriptor:
        found = await intake.read(descriptor, None, stream=True)
        stream = Stream(await where.client(kinds=where.kinds), campaign.name)
        await stream.open(per_second=campaign.per_second)
        door = _Door(where.kinds, progress)
        try:
            async for done in stream.carry(door.admitted(found), chunk=campaign.chunk):
                progress.show(f"{done} tasks done")
            ended = await stream.close()
        except BaseException:
            progress.say("Stopped half-way. Run the same again: what was done is recognised.")
            raise
    progress.clear()
    _print(campaign.name, ended, refused_lines=door.refused, as_json=as_json)
    if door.refused:
        return InputError.exit_code
    return Conflict.exit_code if ended.tally.conflicting else 0


async def status(name: str, config: Path | None, *, as_json: bool) -> None:
    """Print how far a stream is."""
    stream = Stream(await place.find(config).client(), name)
    _print(name, await stream.progress(), refused_lines=None, as_json=as_json)


async def steer(name: str, config: Path | None, *, paused: bool, as_json: bool) -> None:
    """Pause or resume a stream, and print how far it is."""
    stream = Stream(await place.find(config).client(), name)
    await (stream.pause() if paused else stream.resume())
    _print(name, await stream.progress(), refused_lines=None, as_json=as_json)


def _print(
    name: str, progress: StreamProgress, *, refused_lines: int | None, as_json: bool
) -> None:
    if as_json:
        told = {"stream": name, **progress.model_dump(mode="json")}
        output.document(told if refused_lines is None else {**told, "refused_lines": refused_lines})
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
        output.line(f"It is paused; go on with `ascertain stream resume {name}`.")
    if progress.held:
        output.line(f"Held by paused partitions: {', '.join(progress.held)}.")
    if refused_lines:
        output.line(f"{refused_lines} lines are no tasks; nothing was begun for them.")
    if progress.handed_over:
        first = progress.handed_over[0]
        output.line(f"Look at the first that was handed over: `ascertain explain {first}`.")
    for task_id in progress.conflicting:
        output.line(f"Conflict: {task_id} was used before for other content.")
