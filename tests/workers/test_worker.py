from __future__ import annotations

from datetime import UTC, datetime, timedelta

from activities.serving import Serving
from ascertain.ledger.model import ModelLedger
from workers.worker import Role, build_workers


async def test_a_workflow_waits_two_seconds_for_the_worker_that_has_it_at_hand(temporal_client):
    """Temporal's own ten would be how long each task of a worker that was killed stands still."""
    serving = Serving(ModelLedger(lambda: datetime.now(UTC)), {}, "worker")
    (worker,) = build_workers(temporal_client, serving, Role(()), "sticky")
    waits = worker.config().get("sticky_queue_schedule_to_start_timeout")
    assert waits == timedelta(seconds=2)
