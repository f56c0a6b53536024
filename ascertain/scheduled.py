"""What the deployment's own schedule of censuses has found, read from the workflows that it began."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.census import Censuses

if TYPE_CHECKING:
    from datetime import datetime

    from temporalio.client import Client


@dataclass(frozen=True, slots=True)
class TakenCensus:
    """What was found, and when that was begun."""

    at: datetime
    censuses: Censuses


async def latest(temporal: Client, task_queue: str) -> TakenCensus | None:
    """The newest finished census of a deployment's schedule; None: there is none that the server still has.

    Raises:
        TemporalDown: The server cannot be asked.
    """
    query = (
        f"WorkflowType = '{names.CENSUS_WORKFLOW}' AND ExecutionStatus = 'Completed' AND "
        f"TemporalScheduledById = '{names.schedule_of(names.CENSUS, task_queue)}'"
    )
    with answered("look for the schedule's censuses"):
        async for found in temporal.list_workflows(query, limit=1, rpc_timeout=RPC_TIMEOUT):
            handle = temporal.get_workflow_handle(
                found.id, run_id=found.run_id, result_type=Censuses
            )
            return TakenCensus(found.start_time, await handle.result(rpc_timeout=RPC_TIMEOUT))
    return None
