"""The sweep's schedule, created by whichever worker comes first."""

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
)

from ascertain.contracts import names
from ascertain.contracts.sweep import SweepRequest

if TYPE_CHECKING:
    from temporalio.client import Client


async def ensure_sweep(client: Client, task_queue: str, every: timedelta) -> None:
    """Have the deployment of this task queue swept from now on; one that is scheduled stays as it is."""
    action = ScheduleActionStartWorkflow(
        names.SWEEP_WORKFLOW,
        SweepRequest(older_than=every),
        id=f"{names.SWEEP}-{task_queue}",
        task_queue=task_queue,
        execution_timeout=timedelta(minutes=20),
    )
    schedule = Schedule(
        action=action,
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=every),
    )
    try:
        await client.create_schedule(f"{names.SWEEP}-{task_queue}", schedule)
    except ScheduleAlreadyRunningError:
        return
