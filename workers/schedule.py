"""The deployment's schedules: made by whichever worker comes first, changed by one whose settings differ."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
)
from temporalio.service import RPCError, RPCStatusCode

from ascertain.contracts import names
from ascertain.contracts.census import CensusOrder
from ascertain.contracts.sweep import SweepRequest

if TYPE_CHECKING:
    from temporalio.client import Client, ScheduleHandle, ScheduleUpdateInput

    from ascertain.settings import Settings


@dataclass(frozen=True, slots=True)
class Recurring:
    """What is begun again and again.

    Attributes:
        schedule_id: Also of the workflows, with the time of each behind it.
        every: 0: not at all.
        note: The argument in words, by which a changed one is known.
    """

    schedule_id: str
    workflow: str
    argument: object
    every: timedelta
    note: str = ""

    def schedule(self, task_queue: str) -> Schedule:
        """As it should stand on the server."""
        action = ScheduleActionStartWorkflow(
            self.workflow,
            self.argument,
            id=self.schedule_id,
            task_queue=task_queue,
            execution_timeout=timedelta(hours=1),
        )
        return Schedule(
            action=action,
            spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=self.every)]),
            policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=self.every),
            state=ScheduleState(note=self.note),
        )


async def ensure_schedules(client: Client, settings: Settings) -> None:
    """Have the deployment swept, and its censuses taken, as often as its settings say from now on."""
    for wanted in (sweep(settings), census(settings)):
        await _ensure(client, settings.task_queue, wanted)


def sweep(settings: Settings) -> Recurring:
    """Looking for effects that nobody pursues."""
    every, schedule_id = settings.sweep_every, names.schedule_of(names.SWEEP, settings.task_queue)
    return Recurring(schedule_id, names.SWEEP_WORKFLOW, SweepRequest(older_than=every), every)


def census(settings: Settings) -> Recurring:
    """Comparing the outside's own lists with the ledger."""
    kinds = tuple(sorted(settings.kinds))
    return Recurring(
        names.schedule_of(names.CENSUS, settings.task_queue),
        names.CENSUS_WORKFLOW,
        CensusOrder(kinds=kinds, no_older_than=settings.census_since),
        settings.census_every if kinds else timedelta(0),
        f"the last {settings.census_since} of {', '.join(kinds)}",
    )


async def _ensure(client: Client, task_queue: str, wanted: Recurring) -> None:
    handle = client.get_schedule_handle(wanted.schedule_id)
    if not wanted.every:
        await _remove(handle)
        return
    try:
        await client.create_schedule(wanted.schedule_id, wanted.schedule(task_queue))
    except ScheduleAlreadyRunningError:
        await handle.update(lambda found: _changed(found, task_queue, wanted))


def _changed(
    found: ScheduleUpdateInput, task_queue: str, wanted: Recurring
) -> ScheduleUpdate | None:
    """The schedule as it should be, left paused if a person paused it; None if it is so already."""
    standing = found.description.schedule
    as_often = standing.spec.intervals == [ScheduleIntervalSpec(every=wanted.every)]
    if as_often and standing.state.note == wanted.note:
        return None
    schedule = wanted.schedule(task_queue)
    if standing.state.paused:  # with the note of who paused it
        schedule.state = standing.state
    return ScheduleUpdate(schedule)


async def _remove(handle: ScheduleHandle) -> None:
    try:
        await handle.delete()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
