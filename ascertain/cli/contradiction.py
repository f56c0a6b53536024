"""One task_id with several contents in one source: nobody can say which of them is meant."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ascertain.cli import intake
from ascertain.door import admit
from ascertain.errors import InputError, InvalidTask
from ascertain.keys import task_fingerprint

if TYPE_CHECKING:
    from collections.abc import Collection

    from ascertain.contracts.task import Task


@dataclass(slots=True)
class Contents:
    """What each id of a source stands for; of a line no more is kept than its number and fingerprint.

    Attributes:
        twice: The first line of an id, and the first with other content.
    """

    twice: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    _first: dict[str, tuple[int, bytes]] = field(default_factory=dict[str, tuple[int, bytes]])

    def add(self, line: int, task: Task) -> str:
        """Take in a line, and give its task's fingerprint.

        Raises:
            InvalidTask: A line before this one holds other content under the same id.
        """
        fingerprint = task_fingerprint(task)
        seen = bytes.fromhex(fingerprint)
        first, content = self._first.setdefault(task.task_id, (line, seen))
        if content != seen:
            self.twice.setdefault(task.task_id, (first, line))
            raise InvalidTask(
                f"task {task.task_id!r} stands in line {first} with other content; give one of the two an id "
                "of its own"
            )
        return fingerprint

    def check(self, task_id: str | None) -> None:
        """Refuse every line of an id that stands for several contents, the first included.

        Raises:
            InvalidTask: It is such an id.
        """
        if task_id in self.twice:
            first, other = self.twice[task_id]
            raise InvalidTask(
                f"task {task_id!r} stands in lines {first} and {other} with different contents, so none of "
                "them is started; give each an id of its own"
            )


async def reread(
    descriptor: int, start: int, found: intake.Intake, kinds: Collection[str] | None
) -> tuple[intake.Intake, Contents]:
    """Look at all lines of a file, and go back to where it began.

    Args:
        descriptor: Of a file, which can be read twice.
        start: Where in it the first line begins.
        found: Its lines, none of them taken yet.
        kinds: Those that are served.
    """
    contents = Contents()
    async for entry in found.entries:
        with suppress(InputError):  # each line is told its fault when its turn has come
            contents.add(entry.number, admit(entry.parse(), kinds))
    os.lseek(descriptor, start, os.SEEK_SET)
    return await intake.read(descriptor, found.name, stream=True), contents


def beginning(descriptor: int) -> int | None:
    """Where a file is about to be read; None if it cannot be read twice, as a pipe."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        return None
