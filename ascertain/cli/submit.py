"""``ascertain submit``."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import typer

from ascertain.cli import contradiction, intake, output, place, shape
from ascertain.cli.failure import leaving
from ascertain.cli.progress import Progress
from ascertain.cli.submission import Fate, Outcome, Submission, Wish, exit_code_of
from ascertain.cli.text import counted
from ascertain.door import admit
from ascertain.errors import InputError

_STANDARD_INPUT: Final = "-"


async def submit(
    source: str, wish: Wish, config: Path | None, *, stream: bool, as_json: bool
) -> int:
    """Submit what a file or standard input holds, and print what became of it.

    Returns:
        The exit code.

    Raises:
        InvalidTask: It holds nothing.
        AscertainError: The one task that it holds was not started.
    """
    with opened(source) as descriptor:
        start = contradiction.beginning(descriptor)
        found = await intake.read(descriptor, named(source), stream=stream)
        if wish.message_id is not None and not found.single:
            raise typer.BadParameter("--message-id is for one task; in a stream each has its own")
        where = place.find(config)
        if not found.single:
            submission = Submission(
                await where.client(kinds=where.kinds), wish, as_json, Progress()
            )
            if start is not None:
                found, submission.contents = await contradiction.reread(
                    descriptor, start, found, where.kinds
                )
            return await _stream(submission, found, as_json=as_json)
        entry = await anext(found.entries)
        try:  # what is wrong with it can be said without a server
            admit(entry.parse(), where.kinds)
        except InputError as error:
            error.args = (f"{entry.place(error)}: {error}",)
            raise
        submission = Submission(await where.client(kinds=where.kinds), wish, as_json, Progress())
        return await _single(submission, entry, as_json=as_json)


async def _single(submission: Submission, entry: intake.Entry, *, as_json: bool) -> int:
    with leaving("If the task was started, it goes on. Run the same again: it is recognised."):
        outcome = await submission.one(entry)
    if outcome.run_id is None and outcome.error is not None:
        raise outcome.error
    if as_json:
        output.document(outcome.document())
    else:
        _print(outcome)
    if outcome.error is not None:
        output.note(f"ascertain: {outcome.error}")
    return exit_code_of(outcome)


def _print(outcome: Outcome) -> None:
    said = {
        Fate.STARTED: "is started",
        Fate.DUPLICATE: "had been started before; nothing new was started",
        Fate.RESTARTED: "is started again, because its last run was ended from outside; it begins by asking",
    }
    output.line(f"Task {outcome.task_id} {said[outcome.fate]}.")
    if outcome.result is not None:
        shape.print_result(outcome.result)


async def _stream(submission: Submission, found: intake.Intake, *, as_json: bool) -> int:
    half_way = "Stopped half-way. Run the same again: what was started is recognised."
    with leaving(half_way, Exception):
        try:
            await submission.stream(found)
        finally:
            submission.progress.clear()
    _summarise(submission, as_json=as_json)
    return submission.exit_code


def _summarise(submission: Submission, *, as_json: bool) -> None:
    fates: dict[str, object] = {fate.value: submission.fates[fate] for fate in Fate}
    total = submission.fates.total()
    if as_json:
        outcomes: dict[str, object] = dict(submission.outcomes)
        summary = {"lines": total, **fates, "outcomes": outcomes}
        output.json_line({"summary": summary, "exit_code": submission.exit_code})
    else:
        parts = [f"{count} {fate}" for fate, count in fates.items() if count]
        number_of_lines = counted(total, "line", "lines")
        output.line(f"{number_of_lines}: {', '.join(parts)}.")
        if submission.outcomes:
            ended = (f"{count} {what}" for what, count in sorted(submission.outcomes.items()))
            output.line(f"Results: {', '.join(ended)}.")
    if submission.fates[Fate.UNANSWERED]:
        output.note(
            "The server did not answer, so the rest was not submitted. Run the same again: what was "
            "started is recognised."
        )


def named(source: str) -> Path | None:
    """The file that a command line names; None: standard input."""
    return None if source == _STANDARD_INPUT else Path(source)


@contextmanager
def opened(source: str) -> Generator[int]:
    """A file, or standard input for ``-``, to read from.

    Raises:
        BadParameter: It cannot be read.
    """
    if source == _STANDARD_INPUT:
        yield 0
        return
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise typer.BadParameter(f"cannot read {source}: {error.strerror}") from error
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise typer.BadParameter(f"cannot read {source}: it is a folder")
    try:
        yield descriptor
    finally:
        os.close(descriptor)
