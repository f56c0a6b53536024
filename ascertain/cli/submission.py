"""Submit what an intake holds: bounded concurrency, nothing lost, safe to run again."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ascertain.cli import attend, output
from ascertain.cli.contradiction import Contents
from ascertain.cli.failure import NOT_DONE, PARTIAL, words_of
from ascertain.cli.intake import NotJson
from ascertain.contracts.task import TaskOutcome
from ascertain.errors import AscertainError, Conflict, InputError, Unavailable

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ascertain.cli.intake import Entry, Intake
    from ascertain.cli.progress import Progress
    from ascertain.client import Client
    from ascertain.contracts.task import TaskResult
    from ascertain.starting import Submitted

_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 5.0
# Of the exit codes of many lines: what was not even tried, what was refused, what is not over or not done.
_UNTRIED: Final = 6
_REFUSED: Final = frozenset({2, 3})
_MOST_SERIOUS: Final = (_UNTRIED, 2, 3, 9, NOT_DONE)


class Fate(StrEnum):
    """What became of one line."""

    STARTED = "started"
    DUPLICATE = "duplicate"
    RESTARTED = "restarted"
    CONFLICT = "conflict"
    REFUSED = "refused"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one line, and of its task where that was waited for."""

    line: int
    fate: Fate
    task_id: str | None = None
    run_id: str | None = None
    error: AscertainError | None = None
    result: TaskResult | None = None

    def document(self) -> dict[str, object]:
        """As one JSON object."""
        shown: dict[str, object] = {"line": self.line, "fate": self.fate.value}
        shown |= {"task_id": self.task_id, "run_id": self.run_id}
        if self.error is not None:
            told: dict[str, object] = {"code": self.error.code, "message": words_of(self.error)}
            if isinstance(self.error, NotJson):
                told["column"] = self.error.column
            shown["error"] = told
        if self.result is not None:
            shown["result"] = self.result.model_dump(mode="json")
        return shown


@dataclass(frozen=True, slots=True)
class Wish:
    """How a source is submitted.

    Attributes:
        patience: How long a line is tried again while the server does not answer.
        wait: Wait for each task's result.
        within: At most so long for a result; None: without limit.
    """

    concurrency: int = 32
    patience: timedelta = timedelta(seconds=60)
    message_id: str | None = None
    wait: bool = False
    within: timedelta | None = None


@dataclass(slots=True)
class Submission:
    """One run over a source.

    Attributes:
        fates: How many lines came to what.
        exit_code: The most serious of all lines.
        contents: Of all lines, where they could be looked at before the first is started.
    """

    client: Client
    wish: Wish
    as_json: bool
    progress: Progress
    fates: Counter[Fate] = field(default_factory=Counter[Fate])
    outcomes: Counter[str] = field(default_factory=Counter[str])
    contents: Contents = field(default_factory=Contents)
    _exit_codes: set[int] = field(default_factory=set[int])
    _halted: bool = False

    @property
    def exit_code(self) -> int:
        """0 if every line is a started task (that is done, if that was waited for)."""
        codes = self._exit_codes
        if codes & _REFUSED and codes - _REFUSED and _UNTRIED not in codes:
            return PARTIAL
        return next((code for code in _MOST_SERIOUS if code in codes), max(codes, default=0))

    async def stream(self, intake: Intake) -> None:
        """Submit every line; report each that is refused, at once, and go on."""
        slots = asyncio.Semaphore(self.wish.concurrency)
        async with asyncio.TaskGroup() as group:
            async for entry in intake.entries:
                await slots.acquire()
                if self._halted:
                    break
                group.create_task(self._line(entry)).add_done_callback(lambda _: slots.release())

    async def _line(self, entry: Entry) -> None:
        outcome = await self.one(entry)
        self.fates[outcome.fate] += 1
        if outcome.result is not None:
            self.outcomes[outcome.result.outcome.value] += 1
        self._exit_codes.add(exit_code_of(outcome))
        self._halted = self._halted or outcome.fate is Fate.UNANSWERED
        if outcome.error is not None:
            where = entry.place(outcome.error)
            self.progress.say(f"{where}: {outcome.fate}: {words_of(outcome.error)}")
        if self.as_json:
            output.json_line(outcome.document())
        self.progress.show(", ".join(f"{n} {fate}" for fate, n in sorted(self.fates.items())))

    async def one(self, entry: Entry) -> Outcome:
        """Submit one line, and wait for its result if that is wished."""
        task_id: str | None = None
        try:
            task = entry.parse()
            named = task.get("task_id")
            task_id = named[:128] if isinstance(named, str) else None
            self.contents.check(task_id)
            submitted = await self._patiently(task)
        except Conflict as error:
            return Outcome(entry.number, Fate.CONFLICT, task_id, error=error)
        except InputError as error:
            return Outcome(entry.number, Fate.REFUSED, task_id, error=error)
        except AscertainError as error:
            return Outcome(entry.number, Fate.UNANSWERED, task_id, error=error)
        fate = _fate(submitted)
        if not self.wish.wait:
            return Outcome(entry.number, fate, submitted.task_id, submitted.run_id)
        result, trouble = await self._result(submitted.task_id)
        return Outcome(
            entry.number, fate, submitted.task_id, submitted.run_id, error=trouble, result=result
        )

    async def _patiently(self, task: dict[str, JsonValue]) -> Submitted:
        """Submit, again if no answer came: that is safe, for the same task is recognised."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.wish.patience.total_seconds()
        wait = _FIRST_WAIT
        while True:
            try:
                return await self.client.submit(task, message_id=self.wish.message_id)
            except Unavailable as error:
                if loop.time() + wait >= end or self._halted:
                    raise
                self.progress.show(f"waiting for the server: {words_of(error)}")
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)

    async def _result(self, task_id: str) -> tuple[TaskResult | None, AscertainError | None]:
        within = self.wish.within
        try:
            return await attend.result(self.client, task_id, within, self.progress.say), None
        except AscertainError as error:
            return None, error


def exit_code_of(outcome: Outcome) -> int:
    """The exit code that one line alone would have."""
    if outcome.error is not None:
        return outcome.error.exit_code
    if outcome.result is not None and outcome.result.outcome is not TaskOutcome.DONE:
        return NOT_DONE
    return 0


def _fate(submitted: Submitted) -> Fate:
    if submitted.duplicate:
        return Fate.DUPLICATE
    return Fate.RESTARTED if submitted.restarted else Fate.STARTED
