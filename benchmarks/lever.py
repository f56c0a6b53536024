"""What could be set otherwise, one thing at a time, to see what the setting as it is is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from temporalio.worker import (
    PollerBehaviorAutoscaling,
    PollerBehaviorSimpleMaximum,
    UnsandboxedWorkflowRunner,
)
from temporalio.worker.workflow_sandbox import (
    SandboxedWorkflowRunner,
    SandboxRestrictions,
)

from benchmarks.coalesced import Coalesced
from workers.worker import PASSED_THROUGH, Role

if TYPE_CHECKING:
    from activities.serving import Serving

_MANY_POLLS: Final = 20
_FEW: Final = 10
_LOGIC: Final = ("activities", "ascertain", "workflows")


def _unchanged(serving: Serving) -> Serving:
    return serving


def _coalesced(serving: Serving) -> Serving:
    return replace(serving, ledger=Coalesced(serving.ledger))


def _passing_all_through() -> SandboxedWorkflowRunner:
    modules = (*PASSED_THROUGH, *_LOGIC)
    return SandboxedWorkflowRunner(
        restrictions=SandboxRestrictions.default.with_passthrough_modules(*modules)
    )


@dataclass(frozen=True, slots=True)
class Lever:
    """One thing that is otherwise than it is.

    Attributes:
        worker: Arguments of the SDK's worker, over our own.
        dress: Wraps the worker's ports.
        wire: The ``wire`` of the kind's options.
        server: Dynamic configuration of a Temporal server of its own; empty: the common one.
        role: What the worker does.
        reads_anew: Whether the sandbox reads the code of the workflows for every task.
        collects_after: When Python looks for garbage; None: as our workers have it.
    """

    worker: Mapping[str, Any] = field(default_factory=dict[str, Any])
    dress: Callable[[Serving], Serving] = _unchanged
    wire: Mapping[str, int] = field(default_factory=dict[str, int])
    server: Mapping[str, str] = field(default_factory=dict[str, str])
    role: Role = field(default_factory=Role)
    reads_anew: bool = False
    collects_after: tuple[int, int, int] | None = None


AS_IT_IS: Final = "as it is"
ORCHESTRATES: Final = "runs workflows and inline effects alone"
EFFECTS: Final = "does queued effects alone"
CLINGS: Final = "10 s for the worker that has the workflow at hand"
# Those that are measured against the worker as it is.
LEVERS: Final[Mapping[str, Lever]] = {
    AS_IT_IS: Lever(),
    "nothing (this is the noise)": Lever(),
    "claims that meet go in one statement": Lever(dress=_coalesced),
    "a connection for every call": Lever(wire={"keep_alive": 0}),
    "10 connections to the outside": Lever(wire={"connections": _FEW}),
    "100 workflows are kept, not 1,000": Lever(worker={"max_cached_workflows": 100}),
    "10 workflows are kept, not 1,000": Lever(worker={"max_cached_workflows": _FEW}),
    "code is read anew for every task": Lever(reads_anew=True),
    "garbage is searched for after 10,000 new objects": Lever(collects_after=(10_000, 10, 10)),
    "workflow modules pass through the sandbox": Lever(
        worker={"workflow_runner": _passing_all_through()}
    ),
    "no sandbox": Lever(worker={"workflow_runner": UnsandboxedWorkflowRunner()}),
    "20 polls for workflow tasks": Lever(
        worker={"workflow_task_poller_behavior": PollerBehaviorSimpleMaximum(_MANY_POLLS)}
    ),
    "polls that scale by themselves": Lever(
        worker={"workflow_task_poller_behavior": PollerBehaviorAutoscaling()}
    ),
    "ordinary activities start eagerly": Lever(worker={"disable_eager_activity_execution": False}),
    "one partition of each task queue": Lever(
        server={
            "matching.numTaskqueueReadPartitions": "1",
            "matching.numTaskqueueWritePartitions": "1",
        }
    ),
}
# All that a worker can be.
WORKERS: Final[Mapping[str, Lever]] = {
    **LEVERS,
    ORCHESTRATES: Lever(role=Role(queues=())),
    EFFECTS: Lever(role=Role(orchestrate=False)),
    CLINGS: Lever(worker={"sticky_queue_schedule_to_start_timeout": timedelta(seconds=10)}),
}
