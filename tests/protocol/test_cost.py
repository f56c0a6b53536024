"""What a smooth task costs, counted where it is paid: in the history, the database's log, on its disk."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import asyncpg
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from ascertain.client import Client
from ascertain.contracts.stream import Tally
from ascertain.contracts.task import TaskOutcome
from ascertain.door import admit
from ascertain.stream import Stream, workflow_id
from tests.protocol.deployment import step

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starter.postgres import EmbeddedPostgres

TASKS = 10
CHUNK = 5
CHUNKS = 4
WARMING = 2
CARRIED = CHUNK * (WARMING + CHUNKS)
SMOOTH = [
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
    EventType.EVENT_TYPE_MARKER_RECORDED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
]
# How many of these there are is the SDK's and the server's business, and the machine's.
WORKFLOW_TASKS = {
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
}


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


def usual(counted: list[int]) -> float:
    """What most of them cost: one that a busy machine held up for a second is not a smooth one."""
    return median(after - before for before, after in pairwise(counted))


async def flushes(postgres: EmbeddedPostgres) -> int:
    """How often clients that have gone waited for a commit to reach the disk.

    Among them whoever made the database, whose count may come late, and whoever filled a segment of the log.
    """
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
    histories = []
    for number in range(3):
        await run(deployment, f"smooth-{number}")
        history = deployment.handle(f"smooth-{number}").fetch_history_events()
        histories.append([event.event_type async for event in history])
    # One that a busy machine held up for a second is not a smooth one.
    assert SMOOTH in histories


async def test_a_smooth_task_is_two_statements_and_one_fsync(deployments, postgres):
    deployment = await deployments()
    before = await flushes(postgres)
    worker = await deployment.worker()
    await run(deployment, "warm-up")
    async with logging_statements(postgres):
        await run(deployment, "told")  # connections hear of the setting between two statements
        counted = [statements(postgres)]
        for number in range(TASKS):
            await run(deployment, f"smooth-{number}")
            counted.append(statements(postgres))
        assert usual(counted) == 2
    await worker.drain()
    ran = TASKS + WARMING
    assert ran <= await flushes(postgres) - before < 2 * ran


async def feed(deployment, stream, number):
    names = [f"{stream.name}-{number}-{place}" for place in range(CHUNK)]
    await stream.feed(number, [admit(deployment.task(name)) for name in names])


async def test_a_smooth_chunk_is_two_statements_and_one_fsync_however_many_it_holds(
    deployments, postgres
):
    deployment = await deployments()
    before = await flushes(postgres)
    worker = await deployment.worker()
    stream = Stream(deployment.client, deployment.id("counted"))
    await stream.open()
    await feed(deployment, stream, 0)
    async with logging_statements(postgres):
        await feed(deployment, stream, 1)
        counted = [statements(postgres)]
        for number in range(WARMING, WARMING + CHUNKS):
            await feed(deployment, stream, number)
            counted.append(statements(postgres))
        assert usual(counted) == 2
    assert (await stream.close()).tally == Tally(tasks=CARRIED, settled=CARRIED)
    await worker.drain()
    ran = CHUNKS + WARMING
    assert ran <= await flushes(postgres) - before < 2 * ran


async def test_a_smooth_chunk_is_one_update_and_one_local_activity_however_many_it_holds(
    deployments,
):
    deployment = await deployments()
    await deployment.worker()
    stream = Stream(deployment.client, deployment.id("counted"))
    await stream.open()
    for number in range(CHUNKS):
        await feed(deployment, stream, number)
    await stream.close()
    handle = deployment.client.temporal.get_workflow_handle(workflow_id(stream.name))
    events = Counter([event.event_type async for event in handle.fetch_history_events()])
    assert {event: count for event, count in events.items() if event not in WORKFLOW_TASKS} == {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: 1,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED: CHUNKS,
        EventType.EVENT_TYPE_MARKER_RECORDED: CHUNKS,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED: CHUNKS,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED: 1,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: 1,
    }


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
