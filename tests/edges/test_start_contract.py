"""Anybody may start the workflow with anything: nonsense ends it with one sentence and no stack trace."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from random import Random

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client as TemporalClient, WorkflowFailureError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from activities.serving import Serving
from ascertain.codec import data_converter
from ascertain.ledger.model import ModelLedger
from ascertain.ports import EffectFilter
from tests.edges.tasks import broken_task
from tests.edges.test_doors import loose_json
from workers.worker import Role, build_workers

# All of it: ASCERTAIN_FUZZ=1000 ./run test tests/edges/test_start_contract.py
STARTS = int(os.environ.get("ASCERTAIN_FUZZ", "60"))
AT_ONCE = 16
QUEUE = "start-contract"
ENCODINGS = (b"json/plain", b"json/protobuf", b"binary/plain", b"binary/encrypted", b"none", b"")


def arguments(seed: int) -> list[RawValue]:
    """What a careless or a hostile caller may give."""
    random = Random(seed)  # noqa: S311 - a test's own
    body = loose_json(broken_task(seed)) if random.random() < 0.7 else random.randbytes(40)
    encoding = b"json/plain" if random.random() < 0.7 else random.choice(ENCODINGS)
    given = RawValue(Payload(metadata={"encoding": encoding}, data=body))
    return [given] * random.choice([0, 1, 1, 1, 1, 1, 1, 2])


@pytest.mark.timeout(300 + STARTS)
async def test_what_is_no_task_ends_with_one_sentence_and_begins_nothing(temporal):
    client = await TemporalClient.connect(temporal.address, data_converter=data_converter())
    ledger = ModelLedger(lambda: datetime.now(UTC))
    (worker,) = build_workers(client, Serving(ledger, {}, "fuzzed"), Role(), QUEUE)
    slots = asyncio.Semaphore(AT_ONCE)

    async def start(seed: int) -> None:
        async with slots:
            # No task has this id, so that also what is whole is refused.
            handle = await client.start_workflow(
                "Task", args=arguments(seed), id=f"fuzzed-{seed}", task_queue=QUEUE
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
        for seed in range(STARTS):
            starting.create_task(start(seed))
    assert await ledger.effects(EffectFilter()) == []
