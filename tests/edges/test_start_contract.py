"""Anybody may start the workflow with anything: nonsense ends it with one sentence and no stack trace."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from temporalio.client import Client as TemporalClient, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from activities.serving import Serving
from ascertain.codec import data_converter
from ascertain.ledger.model import ModelLedger
from ascertain.ports import EffectFilter
from tests.edges.tasks import FUZZED, payloads
from workers.worker import Role, build_workers

AT_ONCE = 16
QUEUE = "start-contract"


@pytest.mark.timeout(240 + FUZZED)
async def test_what_is_no_task_ends_with_one_sentence_and_begins_nothing(temporal):
    client = await TemporalClient.connect(temporal.address, data_converter=data_converter())
    ledger = ModelLedger(lambda: datetime.now(UTC))
    (worker,) = build_workers(client, Serving(ledger, {}, "fuzzed"), Role(), QUEUE)
    slots = asyncio.Semaphore(AT_ONCE)

    async def start(seed: int) -> None:
        async with slots:
            # No task has this id, so that also what is whole is refused.
            handle = await client.start_workflow(
                "Task", args=payloads(seed), id=f"fuzzed-{seed}", task_queue=QUEUE
            )
            with pytest.raises(WorkflowFailureError) as caught:
                await handle.result()
        cause = caught.value.cause
        assert isinstance(cause, ApplicationError), (seed, cause)
        assert cause.type == "InvalidTask"
        assert 0 < len(cause.message) < 2000
        assert "\n" not in cause.message
        assert cause.failure.stack_trace == ""
        assert cause.__cause__ is None

    async with worker, asyncio.TaskGroup() as starting:
        for seed in range(FUZZED):
            starting.create_task(start(seed))
    assert await ledger.effects(EffectFilter()) == []
