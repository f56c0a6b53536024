"""The two sides with a durable task: plain Temporal, and Ascertain."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ascertain.client import Client
from ascertain.contracts import names
from ascertain.contracts.task import Step, Task, TaskOutcome
from ascertain.door import admit
from ascertain.settings import FILE_VARIABLE, LEDGER_VARIABLE
from ascertain.stream import Stream, workflow_id
from benchmarks.answering import PATH
from benchmarks.bare import worker as bare_worker
from benchmarks.bare.workflow import TASK_QUEUE, WORKFLOW
from benchmarks.call import CallFailed
from benchmarks.cpu import Part, Process
from benchmarks.plan import Contender
from benchmarks.side import BULK_SCALE, Side, one_by_one
from benchmarks.work import Work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from temporalio.client import Client as TemporalClient

    from starter.temporal import TemporalServer

# Which thing is otherwise in a tuned worker.
LEVER_VARIABLE: Final = "ASCERTAIN_BENCH_LEVER"
_KIND: Final = "fact.create"
_DEPLOYMENT: Final = f"""
sweep_every = 0 # its statements are no task's
census_every = 0
task_queue = "QUEUE"

[kinds."{_KIND}"]
adapter = "http"

[kinds."{_KIND}".options]
base_url = "URL"
wire = {{ LIMITS }}

[kinds."{_KIND}".options.request]
method = "POST"
url = "{PATH}"
idempotency_header = "Idempotency-Key"
json = {{ reference = "{{effect_id}}", amount = "{{input.amount}}" }}

[kinds."{_KIND}".options.proof]
external_id = "id"
equals = {{ reference = "{{effect_id}}" }}
"""


def start_bare(folder: Path, temporal: TemporalServer, outside: str) -> Work:
    """A worker of plain Temporal."""
    variables = {**_server(temporal), bare_worker.OUTSIDE: outside}
    return Work("bare", "benchmarks.bare.worker", folder, variables)


def start_ascertain(folder: Path, temporal: TemporalServer, file: Path, ledger: str) -> Work:
    """A worker of Ascertain with this deployment file."""
    variables = _served(temporal, file, ledger)
    return Work("ascertain", "benchmarks.ascertain_worker", folder, variables)


def start_tuned(
    folder: Path, temporal: TemporalServer, file: Path, ledger: str, lever: str
) -> Work:
    """A worker of Ascertain of which one thing is otherwise."""
    variables = {**_served(temporal, file, ledger), LEVER_VARIABLE: lever}
    return Work(file.stem, "benchmarks.tuned_worker", folder, variables)


def deployment(
    folder: Path,
    outside: str,
    task_queue: str = names.TASK_QUEUE,
    wire: Mapping[str, int] | None = None,
) -> Path:
    """Write the deployment file with the one kind.

    Args:
        folder: Of the run.
        outside: Its address.
        task_queue: Where the tasks run.
        wire: Limits of the HTTP layer; None: the usual ones.
    """
    limits = ", ".join(f"{name} = {value}" for name, value in (wire or {}).items())
    text = _DEPLOYMENT.replace("URL", outside).replace("QUEUE", task_queue)
    file = folder / f"{task_queue}.toml"
    file.write_text(text.replace("LIMITS", limits), "utf-8")
    return file


def bare(client: TemporalClient, work: Work, processes: Mapping[Part, Process]) -> Side:
    """Plain Temporal: start the workflow, wait for its result."""

    async def do(task_id: str) -> None:
        handle = await client.start_workflow(
            WORKFLOW, task_id, id=task_id, task_queue=TASK_QUEUE, result_type=str
        )
        external_id = await handle.result()
        if external_id != f"fact-{task_id}":
            raise CallFailed(f"{task_id} ended with {external_id}")

    processes = {**processes, Part.WORKER: work.process}
    return Side(Contender.BARE, one_by_one(do), processes, _events_of_one(client))


def submitting(
    contender: Contender,
    client: TemporalClient,
    task_queue: str,
    processes: Mapping[Part, Process],
    *,
    database: str,
) -> Side:
    """Ascertain: submit the task, wait for its result."""
    ours = Client(client, task_queue=task_queue)

    async def do(task_id: str) -> None:
        await ours.submit(_task(task_id))
        result = await ours.result(task_id)
        if result.outcome is not TaskOutcome.DONE:
            raise CallFailed(f"{task_id} ended {result.outcome}")

    return Side(contender, one_by_one(do), processes, _events_of_one(client), database)


def _served(temporal: TemporalServer, file: Path, ledger: str) -> dict[str, str]:
    return {**_server(temporal), FILE_VARIABLE: str(file), LEDGER_VARIABLE: ledger}


def _server(temporal: TemporalServer) -> dict[str, str]:
    return {"TEMPORAL_ADDRESS": temporal.address, "TEMPORAL_NAMESPACE": temporal.namespace}


def streaming(
    client: TemporalClient,
    processes: Mapping[Part, Process],
    *,
    database: str,
    task_queue: str = names.TASK_QUEUE,
) -> Side:
    """Ascertain: feed the tasks to a stream as ``submit --bulk`` does, and wait for what became of all."""
    ours = Client(client, task_queue=task_queue)

    async def carry(task_ids: Sequence[str], _: int) -> Sequence[float]:
        now = asyncio.get_running_loop().time
        begun = now()
        latencies: list[float] = []
        stream = Stream(ours, task_ids[0])
        await stream.open()
        async for done in stream.carry(_admitted(task_ids)):
            latencies += [now() - begun] * (done - len(latencies))
        told = (await stream.close()).tally
        if told.settled != len(task_ids):
            raise CallFailed(f"stream {stream.name} ended with {told}")
        return latencies

    async def events(task_ids: Sequence[str]) -> int:
        handle = client.get_workflow_handle(workflow_id(task_ids[0]))
        return (await handle.describe()).history_length

    return Side(Contender.STREAM, carry, processes, events, database, scale=BULK_SCALE)


async def _admitted(task_ids: Sequence[str]) -> AsyncIterator[Task]:
    for task_id in task_ids:
        yield admit(_task(task_id).model_dump(mode="json"))


def _task(task_id: str) -> Task:
    step = Step(name="create", kind=_KIND, input={"amount": 1})
    return Task(task_id=task_id, kind="benchmark", steps=(step,))


def _events_of_one(client: TemporalClient) -> Callable[[Sequence[str]], Awaitable[int]]:

    async def events(task_ids: Sequence[str]) -> int:
        (task_id,) = task_ids
        return (await client.get_workflow_handle(task_id).describe()).history_length

    return events
