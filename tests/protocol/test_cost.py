"""What a smooth task costs, counted where it is paid: in the history, the database's log, on its disk."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from ascertain.client import Client
from ascertain.contracts.task import TaskOutcome
from tests.protocol.deployment import step

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starter.postgres import EmbeddedPostgres

TASKS = 10
SMOOTH = [
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
    EventType.EVENT_TYPE_MARKER_RECORDED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
]


async def run(deployment, name):
    await deployment.submit(name, step())
    await deployment.result(name)


@asynccontextmanager
async def logging_statements(postgres: EmbeddedPostgres) -> AsyncGenerator[None]:
    admin = await asyncpg.connect(postgres.url)
    await admin.execute("alter system set log_statement = 'all'")
    await admin.execute("select pg_reload_conf()")
    try:
        yield
    finally:
        await admin.execute("alter system reset log_statement")
        await admin.execute("select pg_reload_conf()")
        await admin.close()


def statements(postgres: EmbeddedPostgres) -> int:
    text = postgres.log.read_text()
    return text.count("LOG:  execute ") + text.count("LOG:  statement: ")


async def flushes(postgres: EmbeddedPostgres) -> int:
    """How often clients that have gone waited for a commit to reach the disk."""
    admin = await asyncpg.connect(postgres.url)
    try:
        return await admin.fetchval(
            "select sum(fsyncs)::bigint from pg_stat_io "
            "where backend_type = 'client backend' and object = 'wal'"
        )
    finally:
        await admin.close()


async def test_a_smooth_inline_task_is_six_events_of_history(deployments):
    deployment = await deployments()
    await deployment.worker()
    await run(deployment, "smooth")
    events = [
        event.event_type async for event in deployment.handle("smooth").fetch_history_events()
    ]
    assert events == SMOOTH


async def test_a_smooth_task_is_two_statements_and_one_fsync(deployments, postgres):
    deployment = await deployments()
    before = await flushes(postgres)
    worker = await deployment.worker()
    await run(deployment, "warm-up")
    async with logging_statements(postgres):
        await run(deployment, "told")  # connections hear of the setting between two statements
        counted = statements(postgres)
        for number in range(TASKS):
            await run(deployment, f"smooth-{number}")
        assert statements(postgres) - counted == 2 * TASKS
    await worker.drain()
    assert TASKS <= await flushes(postgres) - before <= TASKS + 2


async def test_a_smooth_task_is_started_with_one_call(deployments, temporal):
    calls = MetricBuffer(10_000)
    counting = await TemporalClient.connect(
        temporal.address,
        namespace=temporal.namespace,
        data_converter=pydantic_data_converter,
        runtime=Runtime(telemetry=TelemetryConfig(metrics=calls)),
    )
    deployment = await deployments()
    await deployment.worker()
    client = Client(counting, task_queue=deployment.task_queue)
    calls.retrieve_updates()  # those of connecting
    task = deployment.task("counted")
    await client.submit(task)
    made = [
        update.attributes["operation"]
        for update in calls.retrieve_updates()
        if update.metric.name == "temporal_request"
    ]
    assert made == ["StartWorkflowExecution"]
    assert (await client.result(task["task_id"])).outcome is TaskOutcome.DONE
