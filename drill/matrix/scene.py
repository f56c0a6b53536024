"""One row of the matrix while it runs: its cells, its deployment, and what happened when."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from ascertain.contracts.effect import State
from ascertain.errors import SetupError, TaskEnded, Unavailable
from ascertain.testing.knob import Answer, Rule, SubmitKnobs
from drill.deployment import task
from drill.kind import name_of
from drill.points import Plan, Strike
from starter.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from pydantic import JsonValue
    from temporalio.api.enums.v1 import EventType

    from ascertain.client import Client
    from ascertain.starting import Submitted
    from drill.deployment import Deployment
    from drill.kind import OutsideClass, Route
    from drill.points import Point
    from drill.stack import Stack
    from starter.part import Worker

WITHIN: Final = timedelta(seconds=120)
_JITTER_S: Final = 0.15
_PAUSE_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Cell:
    """One row for one class of outside by one route.

    Attributes:
        number: Tells its fact from all others.
    """

    row: str
    outside: OutsideClass
    route: Route
    number: int

    @property
    def task_id(self) -> str:
        """Of its task."""
        return f"{self.row}-{self.outside}-{self.route}-{self.number}"

    @property
    def message_id(self) -> str:
        """Of the message that asks for it."""
        return f"message-{self.task_id}"

    @property
    def kind(self) -> str:
        """Of its effect."""
        return name_of(self.outside, self.route)

    def task(self, **changes: JsonValue) -> dict[str, JsonValue]:
        """Its task as public JSON."""
        made = task(self.task_id, self.kind, amount=self.number, message_id=self.message_id)
        return {**made, **changes}


@dataclass(frozen=True, slots=True)
class Note:
    """Something that the drill did or saw, for the picture.

    Attributes:
        lane: ``message``, ``worker`` or ``outside``.
        task_id: None: it concerns every cell of the row.
    """

    at: datetime
    lane: str
    what: str
    task_id: str | None = None


@dataclass(slots=True)
class Scene:
    """What a row works with.

    Attributes:
        late: The tasks whose frozen owner had still to write down what came of its call.
    """

    stack: Stack
    deployment: Deployment
    cells: Sequence[Cell]
    dice: random.Random
    notes: list[Note] = field(default_factory=list[Note])
    late: set[str] = field(default_factory=set[str])

    def note(self, lane: str, what: str, cell: Cell | None = None) -> None:
        """Write down that it happened now."""
        task_id = None if cell is None else cell.task_id
        self.notes.append(Note(datetime.now(UTC), lane, what, task_id))

    async def worker(
        self,
        name: str,
        plan: Plan | None = None,
        *,
        address: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Worker:
        """Start a worker; for the rest see ``Deployment.worker``."""
        made = self.deployment.worker(plan, address=address, variables=variables)
        await made.start()
        self.note("worker", f"{name} polls (pid {made.pid})")
        return made

    async def doomed(self, point: Point, strike: Strike = Strike.KILL) -> Worker:
        """A worker that is struck once all cells stand at the point."""
        tally = self.deployment.folder / "strikes"
        tally.mkdir(exist_ok=True)
        plan = Plan(point=point, strike=strike, together=len(self.cells), tally=tally)
        return await self.worker("worker A", plan=plan)

    def answer_first(self, cell: Cell, knobs: SubmitKnobs, times: int = 1) -> None:
        """What the first requests of a cell's effect meet."""
        effect = self.deployment.effect_of(cell.task_id)
        rule = Rule(key=effect, times=times, submit=knobs)
        self.deployment.place_of(cell.outside).rules.add(rule)

    def slow_answers(self, seconds: float) -> None:
        """Each first request is done at once and answered late."""
        for cell in self.cells:
            self.answer_first(cell, SubmitKnobs(reply=Answer(after_s=seconds)))

    async def submit_all(self) -> None:
        """Each cell's message arrives."""
        await asyncio.gather(*(self._submit(cell) for cell in self.cells))

    async def _submit(self, cell: Cell) -> None:
        await asyncio.sleep(self.dice.uniform(0, _JITTER_S))
        await self.submit(cell)

    async def submit(self, cell: Cell, client: Client | None = None) -> Submitted:
        """Deliver a cell's message, as often as it takes."""
        while True:
            try:
                done = await (client or self.deployment.client).submit(cell.task())
            except Unavailable:
                await asyncio.sleep(_PAUSE_S)
                continue
            became = "duplicate" if done.duplicate else "restarted" if done.restarted else "started"
            self.note("message", f"delivered: {became}", cell)
            return done

    async def outside_has(self) -> None:
        """Wait until the outside has received a request of every cell."""
        await asyncio.gather(*(self.called(cell) for cell in self.cells))

    async def called(self, cell: Cell) -> None:
        """Wait until the outside has received a request of this cell."""
        effect = self.deployment.effect_of(cell.task_id)
        books = self.deployment.place_of(cell.outside).books
        await books.wait_for("submit", key=effect, within_s=WITHIN.total_seconds())

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait for something.

        Raises:
            SetupError: It did not come about; says that ``what``.
        """
        await until(holds, WITHIN, what)

    async def dead(self, worker: Worker) -> None:
        """Wait until a doomed worker is dead."""

        async def gone() -> bool:
            return not worker.running

        await self.until(gone, "the planned fault did not strike")
        self.note("worker", "worker A killed (SIGKILL)")

    async def stopped(self, worker: Worker) -> None:
        """Wait until a doomed worker stands still."""

        async def still() -> bool:
            return worker.frozen

        await self.until(still, "the planned fault did not strike")
        self.note("worker", "worker A frozen (SIGSTOP)")

    async def unfinished(self) -> None:
        """Note which cells' owners have still to write down what came of their calls.

        Raises:
            SetupError: There is none, so the fault struck nothing.
        """
        for cell in self.cells:
            case = await self.deployment.ledger.inspect(self.deployment.effect_of(cell.task_id))
            if case is not None and case.row.state is State.IN_FLIGHT:
                self.late.add(cell.task_id)
        if not self.late:
            raise SetupError("the planned fault struck nothing: every outcome was recorded already")

    async def thawed(self, worker: Worker) -> None:
        """Let a frozen worker go on, finish what it had in hand, and end."""
        worker.thaw()
        self.note("worker", "worker A thawed (SIGCONT)")
        await worker.stop()
        self.note("worker", "worker A has finished what it had in hand")

    async def history(self, cell: Cell) -> list[EventType.ValueType]:
        """What stands in the history of a cell's workflow."""
        handle = self.deployment.client.temporal.get_workflow_handle(cell.task_id)
        return [event.event_type async for event in handle.fetch_history_events()]

    async def ended(self, client: Client | None = None) -> None:
        """Wait until every cell's task is over.

        Raises:
            SetupError: One is not over in time.
        """
        chosen = client or self.deployment.client
        await asyncio.gather(*(self._ended(chosen, cell) for cell in self.cells))

    async def _ended(self, client: Client, cell: Cell) -> None:
        deadline = asyncio.get_running_loop().time() + WITHIN.total_seconds()
        while True:
            left = deadline - asyncio.get_running_loop().time()
            try:
                result = await client.result(cell.task_id, within=timedelta(seconds=max(left, 0)))
            except TimeoutError:
                raise SetupError(f"{cell.task_id} is not over after {WITHIN}") from None
            except (TaskEnded, Unavailable):  # its run was ended from outside: another one goes on
                if left < 0:
                    raise
                await asyncio.sleep(_PAUSE_S)
                continue
            self.note("message", f"task over: {result.outcome}", cell)
            return
