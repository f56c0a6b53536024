"""The ledger does not answer as a task comes to its end, and so cannot say what else it knows of the task."""

from __future__ import annotations

from datetime import UTC, datetime

from activities.serving import Serving
from ascertain.client import Client
from ascertain.contracts import names
from ascertain.contracts.task import TaskOutcome
from ascertain.errors import LedgerDown
from ascertain.ledger.model import ModelLedger
from tests.waiting import wait_until
from workers.worker import Role, build_workers

QUEUE = "ledger-away"
TASK = {
    "task_id": "away-1",
    "kind": "toy",
    "steps": [{"name": "do", "kind": "toy", "input": {}}],
}


class Away(ModelLedger):
    """While it is away it says of no effects, and counts how often it was asked for them."""

    def __init__(self):
        super().__init__(lambda: datetime.now(UTC))
        self.away, self.asked = True, 0

    async def effects(self, which):
        self.asked += 1
        if self.away:
            raise LedgerDown("it does not answer")
        return await super().effects(which)


async def test_a_ledger_that_stays_away_is_waited_for_by_timers(temporal_client):
    """A workflow task that is kept open meanwhile holds up every command and query that the task is given."""
    ledger = Away()
    client = Client(temporal_client, task_queue=QUEUE)
    (worker,) = build_workers(temporal_client, Serving(ledger, {}, "worker"), Role(), QUEUE)
    async with worker:
        handle = await temporal_client.start_workflow(
            names.TASK_WORKFLOW,
            {"task": TASK, "progress": {"ending": "CANCELLED", "cancelling": True}},
            id="away-1",
            task_queue=QUEUE,
        )

        async def waits():
            events = [event async for event in handle.fetch_history_events()]
            return any(event.HasField("timer_started_event_attributes") for event in events)

        await wait_until(waits, what="a timer")
        assert ledger.asked > 1
        assert (await client.status("away-1")).outcome is TaskOutcome.CANCELLED
        ledger.away = False
        assert (await handle.result())["outcome"] == "CANCELLED"
