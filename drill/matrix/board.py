"""The whole matrix: rows side by side on one stack, each judged by the outside's books."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio.service import RPCError

from ascertain.errors import AscertainError
from drill.acceptance import Expectation, faults
from drill.deployment import deployed
from drill.kind import OutsideClass, Route
from drill.matrix.button import BUTTONS
from drill.matrix.result import Result
from drill.matrix.row import ROWS
from drill.matrix.scene import Cell, Scene
from drill.person import Person
from drill.stack import servers

if TYPE_CHECKING:
    from collections.abc import Callable

    from drill.against import Against
    from drill.matrix.row import Row
    from drill.protection import Protection
    from drill.stack import Stack

ALL: Final = {row.name: row for row in (*ROWS, *BUTTONS)}
_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """What is drilled.

    Attributes:
        repeat: How often each row; the seed goes up by one each time.
        against: An adapter that is drilled in the place of ours.
        without: A protection that the workers do not have.
    """

    rows: tuple[Row, ...] = tuple(ALL.values())
    classes: tuple[OutsideClass, ...] = tuple(OutsideClass)
    routes: tuple[Route, ...] = tuple(Route)
    seed: int = 1
    repeat: int = 1
    against: Against | None = None
    without: Protection | None = None

    def cells(self, row: Row) -> list[Cell]:
        """The cells of a row."""
        pairs = [
            (outside, route)
            for outside in self.classes
            for route in self.routes
            if route in row.routes
        ]
        return [Cell(row.name, *pair, number) for number, pair in enumerate(pairs, 1)]


class Board:
    """Runs rows on one stack, a few at a time."""

    def __init__(self, stack: Stack, choice: Choice, tell: Callable[[str], None]) -> None:
        self._stack = stack
        self._choice = choice
        self._tell = tell
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._names = 0

    async def run(self) -> list[Result]:
        """Run everything that was chosen; results are in the order of the rows."""
        rounds = [
            self._in_turn(row, self._choice.seed + round_)
            for round_ in range(self._choice.repeat)
            for row in self._choice.rows
            if self._choice.cells(row)
        ]
        return [result for results in await asyncio.gather(*rounds) for result in results]

    async def _in_turn(self, row: Row, seed: int) -> list[Result]:
        async with self._free:
            begun = time.monotonic()
            results = await self._row(row, seed)
            passed = sum(result.ok for result in results)
            seconds = time.monotonic() - begun
            self._tell(f"{row.name} (seed {seed}): {passed} of {len(results)} in {seconds:.0f} s")
            for result in results:
                for fault in result.faults:
                    self._tell(f"  {result.cell.task_id}: {fault}")
            return results

    async def _row(self, row: Row, seed: int) -> list[Result]:
        self._names += 1
        name = f"row_{self._names}"
        dice = random.Random(f"{seed} {row.name}")  # noqa: S311 - repeatable, nothing secret
        async with AsyncExitStack() as closing:
            stack = self._stack
            if row.own_servers:
                folder = self._stack.folder / f"{name}_servers"
                folder.mkdir(mode=0o711)
                stack = await closing.enter_async_context(servers(folder))
            deployment = await closing.enter_async_context(
                deployed(
                    stack,
                    name,
                    row.timing,
                    against=self._choice.against,
                    without=self._choice.without,
                )
            )
            scene = Scene(stack, deployment, self._choice.cells(row), dice)
            person = Person(deployment, timedelta(seconds=row.timing.in_flight_max_s))
            deciding = asyncio.create_task(person.work())
            stopped_by = await _played(row, scene)
            deciding.cancel()
            with suppress(asyncio.CancelledError):
                await deciding
            return [await _result(row, scene, cell, seed, stopped_by) for cell in scene.cells]


async def _played(row: Row, scene: Scene) -> str | None:
    """Play the row; a sentence if it could not be played to its end."""
    try:
        await row.play(scene)
    except (AscertainError, RPCError, TimeoutError) as error:
        return f"{type(error).__name__}: {error}"
    return None


async def _result(row: Row, scene: Scene, cell: Cell, seed: int, stopped_by: str | None) -> Result:
    trace = await scene.deployment.trace(cell.task_id, cell.outside)
    expected = Expectation(
        message_id=cell.message_id,
        late_write=row.late_write and cell.task_id in scene.late,
        most_submits=row.most_submits,
        moves=row.moves,
        alone=not row.decided and cell.outside is not OutsideClass.NEITHER,
    )
    wrong = faults(trace, expected)
    if stopped_by is not None:
        wrong.insert(0, stopped_by)
    notes = tuple(note for note in scene.notes if note.task_id in {None, cell.task_id})
    return Result(cell, row.about, seed, trace, notes, tuple(wrong))
