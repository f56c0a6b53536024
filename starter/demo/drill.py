"""One run over the stack: submit in two waves, strike, wait for every end."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from starter.demo.show import RUNNING, WAITING
from starter.demo.strike import Strikes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascertain.contracts.task import Task
    from starter.demo.application import Application
    from starter.demo.plan import FaultPlan
    from starter.demo.seat import Seat
    from starter.demo.show import Show

# Payments arrive one after the other and not all at once, as they do where they come from people.
_ARRIVAL: Final = timedelta(milliseconds=40)
_SUCCESSOR_WITHIN: Final = timedelta(seconds=60)
_ENDED_WITHIN: Final = timedelta(seconds=120)
_LOOK_EVERY: Final = timedelta(milliseconds=250)
# Automation has stopped there, so waiting longer changes nothing.
_STUCK: Final = frozenset({"QUARANTINED", "TAKEN_OVER"})


class Drill:
    """Has tasks done under a plan of faults.

    Attributes:
        ended: How each task ended, as far as it did.
        stands: Where each task was seen last, for people.
        struck: How many faults were done, by kind.
        killed: The task at which a worker was killed.
        faults: What went wrong with the strikes, in sentences.
    """

    def __init__(self, application: Application, seats: Sequence[Seat], show: Show) -> None:
        self._application = application
        self._seats = seats
        self._show = show
        self._all_over = asyncio.Event()
        self.ended: dict[str, str] = {}
        self.stands: dict[str, str] = {}
        self.struck: dict[str, int] = {}
        self.killed: str | None = None
        self.faults: list[str] = []

    async def run(self, first: Sequence[Task], second: Sequence[Task], plan: FaultPlan) -> None:
        """Submit both waves, the second once the killed worker has a successor; wait for every end."""
        self.stands = dict.fromkeys([task.task_id for task in (*first, *second)], WAITING)
        async with asyncio.TaskGroup() as group:
            strikes = Strikes(
                plan, self._seats, self._application, aftermath=group, tell=self._show.tell
            )
            watching = [group.create_task(self._watch())]
            await self._submit(first, group, watching)
            await _within(_SUCCESSOR_WITHIN, strikes.succeeded)
            await self._submit(second, group, watching)
            await _within(_ENDED_WITHIN, self._all_over)
            for task in watching:
                task.cancel()
        self._show.states(self.stands)
        self.struck, self.killed = dict(strikes.done), strikes.killed_at
        self.faults += [*strikes.faults, *strikes.missed]

    async def _submit(
        self, tasks: Sequence[Task], group: asyncio.TaskGroup, watching: list[asyncio.Task[None]]
    ) -> None:
        for task in tasks:
            await self._application.submit(task)
            self.stands[task.task_id] = RUNNING
            watching.append(group.create_task(self._follow(task.task_id)))
            await asyncio.sleep(_ARRIVAL.total_seconds())

    async def _follow(self, task_id: str) -> None:
        self.ended[task_id] = await self._application.outcome(task_id)

    async def _watch(self) -> None:
        """Look at every task again and again, until nothing moves any more."""
        while True:
            open_states = await self._application.states()
            for task_id, state in self.stands.items():
                running = state if state == WAITING else RUNNING
                self.stands[task_id] = self.ended.get(task_id, open_states.get(task_id, running))
            self._show.states(self.stands)
            if all(
                task_id in self.ended or state in _STUCK for task_id, state in self.stands.items()
            ):
                self._all_over.set()
            await asyncio.sleep(_LOOK_EVERY.total_seconds())


async def _within(limit: timedelta, event: asyncio.Event) -> None:
    """Wait for the event, but go on without it when the time is up: the report says what is missing."""
    try:
        async with asyncio.timeout(limit.total_seconds()):
            await event.wait()
    except TimeoutError:
        return
