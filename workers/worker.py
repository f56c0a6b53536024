"""A worker process: what it polls, how its workflows are sandboxed, how it stops."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.decide import Decide
from activities.perform import Perform
from activities.reconcile import Reconcile
from activities.serving import Serving
from workflows.task import TaskWorkflow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temporalio.client import Client

# Data passes through (the same classes on both sides, and cheap); logic stays sandboxed.
PASSED_THROUGH = (
    "ascertain.contracts",  # frozen values
    "ascertain.errors",  # raised and caught by class
    "pydantic",  # compiled core, no clock of its own
    "pydantic_core",
    "annotated_types",
    "rfc8785",  # pure function of its argument
    "opentelemetry",  # the tracing interceptor's context
)
DRAIN = timedelta(seconds=20)


def identity() -> str:
    """This process, for leases and the audit trail."""
    return f"{socket.gethostname()}:{os.getpid()}"


def sandbox() -> SandboxedWorkflowRunner:
    """The one runner for all our workflows."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    return SandboxedWorkflowRunner(restrictions=restrictions)


def build_workers(
    client: Client,
    serving: Serving,
    *,
    task_queue: str,
    queues: Sequence[str] = (),
    orchestrate: bool = True,
    max_concurrent: int = 100,
) -> list[Worker]:
    """The Temporal workers of one process, not yet running.

    Args:
        client: Connected to the namespace whose tasks are served.
        serving: The ledger, the kinds and this process's name.
        task_queue: Where workflows and inline effects run.
        queues: Task queues of queued kinds that this process serves too.
        orchestrate: Whether it runs workflows and inline effects at all.
        max_concurrent: Most effects at once, per queue.
    """
    activities = [
        Perform(serving).perform,
        Reconcile(serving).reconcile,
        Decide(serving).decide,
    ]
    workers = [
        Worker(
            client,
            task_queue=queue,
            activities=activities,
            max_concurrent_activities=max_concurrent,
            graceful_shutdown_timeout=DRAIN,
            identity=serving.identity,
        )
        for queue in queues
    ]
    if orchestrate:
        workers.append(
            Worker(
                client,
                task_queue=task_queue,
                workflows=[TaskWorkflow],
                activities=activities,
                workflow_runner=sandbox(),
                max_concurrent_local_activities=max_concurrent,
                graceful_shutdown_timeout=DRAIN,
                identity=serving.identity,
            )
        )
    return workers
