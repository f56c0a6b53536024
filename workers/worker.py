"""A worker process: what it polls, how its workflows are sandboxed, how it stops."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.carry import Carry
from activities.census import TakeCensus
from activities.decide import Decide
from activities.gate import Gates
from activities.incident import IncidentSteps
from activities.outlook import ReplayAsk
from activities.perform import Perform
from activities.reconcile import Reconcile
from activities.replay import ReplayAct, ReplaySelect
from activities.rest import Rest
from activities.serving import Serving
from activities.sweep import Sweep
from ascertain.client import Client as TaskClient
from ascertain.contracts.poller import poller
from workers import bytecode
from workers.discretion import Discretion
from workers.nexus import TaskService
from workers.orphan import TemporalTasks
from workers.replayed import ReplayedTasks
from workers.version import deployment_config
from workflows.argument import Arguments
from workflows.census import CensusWorkflow
from workflows.gate import GateWorkflow
from workflows.incident import IncidentWorkflow
from workflows.replay import ReplayWorkflow
from workflows.stream import StreamWorkflow
from workflows.sweep import SweepWorkflow
from workflows.task import TaskWorkflow

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import TypeAlias

    from temporalio.client import Client

    from ascertain.ports import Kind, Upkeep

    Activity: TypeAlias = Callable[..., Awaitable[object]]

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
# How long the next step of a workflow waits for the worker that has it at hand. One that was killed is waited
# for as long; one that is late only has another worker read the history.
STICKY = timedelta(seconds=2)


def identity() -> str:
    """This process, for leases and the audit trail."""
    return f"{socket.gethostname()}:{os.getpid()}"


def sandbox() -> SandboxedWorkflowRunner:
    """The one runner for all our workflows."""
    bytecode.keep("ascertain", "workflows")
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    return SandboxedWorkflowRunner(restrictions=restrictions)


@dataclass(frozen=True, slots=True)
class Role:
    """What one process of a deployment does.

    Attributes:
        queues: Task queues of queued kinds that it serves; None: those of all kinds.
        orchestrate: Whether it runs workflows and inline effects.
        max_concurrent: Most effects at once, per queue.
    """

    queues: tuple[str, ...] | None = None
    orchestrate: bool = True
    max_concurrent: int = 100


def queues_of(role: Role, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    """The task queues of queued kinds that the role polls."""
    if role.queues is not None:
        return role.queues
    return tuple(sorted({kind.queue for kind in kinds.values() if kind.queue is not None}))


def build_workers(
    client: Client,
    serving: Serving,
    role: Role,
    task_queue: str,
    upkeep: Upkeep | None = None,
) -> list[Worker]:
    """The Temporal workers of one process, not yet running.

    Args:
        client: Connected to the namespace whose tasks are served.
        serving: The ledger, the kinds and this process's name.
        role: What this process does of the deployment.
        task_queue: Where workflows and inline effects run.
        upkeep: The whole ledger, for a census; None: none is taken here.

    Raises:
        InvalidSettings: The environment names half a version.
    """
    submitter = TaskClient(client, task_queue=task_queue)
    activities = _about_effects(serving, submitter, upkeep)
    workers = [
        Worker(
            client,
            task_queue=queue,
            activities=activities,
            max_concurrent_activities=role.max_concurrent,
            graceful_shutdown_timeout=DRAIN,
            identity=_name(serving),
            deployment_config=deployment_config(),
            interceptors=[Discretion()],
        )
        for queue in queues_of(role, serving.kinds)
    ]
    if role.orchestrate:
        activities = [*activities, *_about_tasks(serving, submitter)]
        workers.append(_orchestrator(client, serving, role, task_queue, activities))
    return workers


def _name(serving: Serving) -> str:
    tables = {name: kind.digest for name, kind in serving.kinds.items()}
    return poller(serving.identity, tables, serving.origin)


def _about_effects(
    serving: Serving, submitter: TaskClient, upkeep: Upkeep | None
) -> list[Activity]:
    """What needs the adapter of a kind, and so runs on that kind's queue too."""
    activities: list[Activity] = [
        Perform(serving).perform,
        Reconcile(serving).reconcile,
        Decide(serving).decide,
    ]
    if upkeep is not None:
        activities.append(TakeCensus(serving, upkeep).census)
    if serving.replays is not None:
        activities.append(ReplayAsk(serving, serving.replays, ReplayedTasks(submitter)).ask)
    return activities


def _about_tasks(serving: Serving, submitter: TaskClient) -> list[Activity]:
    """What runs beside the workflows."""
    tasks = TemporalTasks(submitter)
    activities: list[Activity] = [
        Carry(serving, tasks).carry,
        Sweep(serving, tasks).sweep,
        Gates(serving).set_gate,
        Rest(serving).rest,
    ]
    if serving.replays is not None:
        steps = IncidentSteps(serving, submitter, tasks, serving.snapshots)
        activities += [
            ReplaySelect(serving, serving.replays).select,
            ReplayAct(serving, serving.replays, ReplayedTasks(submitter)).act,
            steps.pause,
            steps.snapshot,
            steps.reconcile,
            steps.resume,
        ]
    return activities


def _orchestrator(
    client: Client, serving: Serving, role: Role, task_queue: str, activities: Sequence[Activity]
) -> Worker:
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[
            TaskWorkflow,
            StreamWorkflow,
            SweepWorkflow,
            CensusWorkflow,
            ReplayWorkflow,
            IncidentWorkflow,
            GateWorkflow,
        ],
        activities=activities,
        nexus_service_handlers=[TaskService(task_queue, serving.kinds)],
        workflow_runner=sandbox(),
        interceptors=[Arguments(), Discretion()],
        # What one worker does not know is for the others of its queue, and not eagerly its own again.
        disable_eager_activity_execution=True,
        max_concurrent_local_activities=role.max_concurrent,
        sticky_queue_schedule_to_start_timeout=STICKY,
        graceful_shutdown_timeout=DRAIN,
        identity=_name(serving),
        deployment_config=deployment_config(),
    )
