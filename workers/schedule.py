"""The sweep's schedule: made by whichever worker comes first, and changed by one whose settings differ."""

from __future__ import annotations

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
    ScheduleUpdate,
)
from temporalio.service import RPCError, RPCStatusCode

from ascertain.contracts import names
from ascertain.contracts.sweep import SweepRequest

if TYPE_CHECKING:
    from temporalio.client import Client, ScheduleHandle, ScheduleUpdateInput


def sweep_id(task_queue: str) -> str:
    """The id of the schedule that sweeps the deployment of a task queue."""
    return f"{names.SWEEP}-{task_queue}"


async def ensure_sweep(client: Client, task_queue: str, every: timedelta) -> None:
    """Have the deployment of this task queue swept so often from now on; 0: not any more."""
    handle = client.get_schedule_handle(sweep_id(task_queue))
    if not every:
        await _remove(handle)
        return
    try:
        await client.create_schedule(sweep_id(task_queue), _schedule(task_queue, every))
    except ScheduleAlreadyRunningError:
        await handle.update(lambda found: _changed(found, task_queue, every))


def _schedule(task_queue: str, every: timedelta) -> Schedule:
    action = ScheduleActionStartWorkflow(
        names.SWEEP_WORKFLOW,
        SweepRequest(older_than=every),
        id=sweep_id(task_queue),
        task_queue=task_queue,
        execution_timeout=timedelta(hours=1),
    )
    return Schedule(
        action=action,
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=every),
    )


def _changed(
    found: ScheduleUpdateInput, task_queue: str, every: timedelta
) -> ScheduleUpdate | None:
    """The schedule as it should be, left paused if a person paused it; None if it is so already."""
    standing = found.description.schedule
    if standing.spec.intervals == [ScheduleIntervalSpec(every=every)]:
        return None
    schedule = _schedule(task_queue, every)
    schedule.state = standing.state
    return ScheduleUpdate(schedule)


async def _remove(handle: ScheduleHandle) -> None:
    try:
        await handle.delete()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
