"""The payments to make, from a file of tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ascertain.door import admit
from ascertain.errors import InvalidTask

if TYPE_CHECKING:
    from ascertain.contracts.task import Task

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
FILE: Final = EXAMPLES / "payments.jsonl"
FEWEST: Final = 8


def load(file: Path = FILE, count: int | None = None) -> tuple[Task, ...]:
    """The first ``count`` tasks of a file with one task a line; None: all.

    Raises:
        InvalidTask: The file is not there, or a line is no task; the message says which.
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError as error:
        raise InvalidTask(f"the payments cannot be read: {error}") from error
    tasks: list[Task] = []
    for number, line in enumerate(lines[:count], start=1):
        try:
            tasks.append(admit(json.loads(line)))
        except (ValueError, InvalidTask) as error:
            raise InvalidTask(f"{file}, line {number}: {error}") from error
    if len(tasks) < FEWEST:
        raise InvalidTask(f"{len(tasks)} payments are too few to strike at; at least {FEWEST}")
    return tuple(tasks)
