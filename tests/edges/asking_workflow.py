"""A workflow of somebody else that asks for what is no task, many times at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from nexusrpc import HandlerError
from temporalio import workflow
from temporalio.exceptions import ApplicationError, ChildWorkflowError, NexusOperationError

from tests.edges.calling_workflows import ENDPOINT
from tests.edges.tasks import payload, payloads


@workflow.defn(sandboxed=False)
class Asker:
    """Tells what became of each: the sort of refusal, its words, and whatever else came with them."""

    @workflow.run
    async def run(self, door: str, task_queue: str, first: int, count: int) -> list[list[str]]:
        asked = [self._ask(door, task_queue, seed) for seed in range(first, first + count)]
        return await asyncio.gather(*asked)

    async def _ask(self, door: str, task_queue: str, seed: int) -> list[str]:
        try:
            if door == "child":
                await workflow.execute_child_workflow(
                    "Task", args=payloads(seed), id=f"asked-{seed}", task_queue=task_queue
                )
            else:
                client = workflow.create_nexus_client(service="ascertain", endpoint=ENDPOINT)
                await client.execute_operation(
                    "task", payload(seed), schedule_to_close_timeout=timedelta(minutes=5)
                )
        except (ChildWorkflowError, NexusOperationError) as error:
            return _told(error.cause)
        return ["nothing", "", ""]


def _told(cause: BaseException | None) -> list[str]:
    match cause:
        case ApplicationError():
            sort, trace = cause.type or "", cause.failure.stack_trace if cause.failure else ""
        case HandlerError():
            sort, trace = cause.type.name, cause.stack_trace or ""
        case _:
            return ["", repr(cause), ""]
    return [sort, cause.message, f"{trace}{cause.__cause__ or ''}"]
