"""Workflows of somebody else that ask for a task: as a child, and as a Nexus operation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow

ENDPOINT = "ascertain-test"


@workflow.defn
class Parent:
    """Has a task done as its child."""

    @workflow.run
    async def run(self, asked: dict[str, Any]) -> dict[str, Any]:
        task = asked["task"]
        done: dict[str, Any] = await workflow.execute_child_workflow(
            "Task", task, id=task["task_id"], task_queue=asked["task_queue"], result_type=dict
        )
        return done


@workflow.defn
class Caller:
    """Has a task done through Nexus, and knows of Ascertain but three names."""

    @workflow.run
    async def run(self, task: dict[str, Any]) -> dict[str, Any]:
        client = workflow.create_nexus_client(service="ascertain", endpoint=ENDPOINT)
        done: dict[str, Any] = await client.execute_operation(
            "task", task, output_type=dict, schedule_to_close_timeout=timedelta(minutes=5)
        )
        return done
