"""The buttons that defeat workflow code, and the faults of whole machines."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import (
    PauseActivityRequest,
    ResetActivityRequest,
    ResetWorkflowExecutionRequest,
    UnpauseActivityRequest,
)
from temporalio.service import RPCError

from ascertain.client import Client
from ascertain.contracts import names
from ascertain.errors import SetupError
from drill import clock
from drill.matrix.row import PATIENT, QUEUED, Row, frozen_at
from drill.points import Point
from drill.stack import connect
from drill.trouble import KNOBS, Trouble
from starter.temporal import TemporalServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from drill.matrix.scene import Cell, Scene

_SLOW_S: Final = 3.5
_SHIFT_S: Final = 7200
_PAUSE_S: Final = 0.1
_BY: Final = "drill"


def _execution(cell: Cell) -> WorkflowExecution:
    return WorkflowExecution(workflow_id=cell.task_id)


async def _begun(scene: Scene) -> None:
    """Every cell's request is on its way outside, and not answered for some time."""
    scene.slow_answers(_SLOW_S)
    await scene.worker("worker A")
    await scene.submit_all()


async def _each_called(scene: Scene, press: Callable[[Scene, Cell], Awaitable[None]]) -> None:
    """Press a button on every cell, each as soon as its request is outside."""

    async def one(cell: Cell) -> None:
        await scene.called(cell)
        await press(scene, cell)

    await _begun(scene)
    await asyncio.gather(*(one(cell) for cell in scene.cells))


async def _activity_reset(scene: Scene) -> None:
    await _each_called(scene, _reset_activity)
    await scene.ended()


async def _reset_activity(scene: Scene, cell: Cell) -> None:
    temporal = scene.deployment.client.temporal
    await temporal.workflow_service.reset_activity(
        ResetActivityRequest(
            namespace=temporal.namespace,
            execution=_execution(cell),
            type=names.PERFORM,
            reset_heartbeat=True,
            identity=_BY,
        )
    )
    scene.note("message", "activity reset", cell)


async def _activity_unpaused(scene: Scene) -> None:
    await _each_called(scene, _pause_and_unpause)
    await scene.ended()


async def _pause_and_unpause(scene: Scene, cell: Cell) -> None:
    temporal = scene.deployment.client.temporal
    service, execution = temporal.workflow_service, _execution(cell)
    await service.pause_activity(
        PauseActivityRequest(
            namespace=temporal.namespace, execution=execution, type=names.PERFORM, identity=_BY
        )
    )
    scene.note("message", "activity paused", cell)
    await service.unpause_activity(
        UnpauseActivityRequest(
            namespace=temporal.namespace,
            execution=execution,
            type=names.PERFORM,
            reset_attempts=True,
            identity=_BY,
        )
    )
    scene.note("message", "activity unpaused, its attempts reset", cell)


async def _workflow_reset(scene: Scene) -> None:
    """While the request is outside, and once more when all is over."""
    await _each_called(scene, _reset)
    await scene.ended()
    await asyncio.gather(*(_reset(scene, cell) for cell in scene.cells))
    await scene.ended()


async def _reset(scene: Scene, cell: Cell) -> None:
    """Reset to the first decision. While that is being made there is nothing to reset to yet."""
    temporal = scene.deployment.client.temporal

    async def was_reset() -> bool:
        first = await _first_decision(scene, cell)
        if first is None:
            return False
        with contextlib.suppress(RPCError):
            await temporal.workflow_service.reset_workflow_execution(
                ResetWorkflowExecutionRequest(
                    namespace=temporal.namespace,
                    workflow_execution=_execution(cell),
                    reason=_BY,
                    workflow_task_finish_event_id=first,
                    request_id=f"{cell.task_id}-{scene.dice.random()}",
                )
            )
            return True
        return False

    await scene.until(was_reset, f"{cell.task_id} could not be reset")
    scene.note("message", "workflow reset", cell)


async def _first_decision(scene: Scene, cell: Cell) -> int | None:
    handle = scene.deployment.client.temporal.get_workflow_handle(cell.task_id)
    async for event in handle.fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            return event.event_id
    return None


async def _terminated(scene: Scene) -> None:
    await _each_called(scene, _terminate)
    await scene.ended()


async def _terminate(scene: Scene, cell: Cell) -> None:
    await scene.deployment.client.temporal.get_workflow_handle(cell.task_id).terminate(_BY)
    scene.note("message", "workflow terminated", cell)
    if not (await scene.submit(cell)).restarted:
        raise SetupError(f"{cell.task_id} was terminated and not started again")


async def _frozen_after_send(scene: Scene) -> None:
    scene.slow_answers(_SLOW_S)
    frozen = await scene.worker("worker A")
    await scene.submit_all()
    await scene.outside_has()
    await frozen.freeze()
    await scene.stopped(frozen)
    await scene.unfinished()
    await scene.worker("worker B")
    await scene.ended()
    await scene.thawed(frozen)


async def _two_clusters(scene: Scene) -> None:
    """Two clusters of the same namespace, each with a worker, share one ledger and get the same tasks."""
    folder = scene.deployment.folder / "second"
    async with TemporalServer(folder, in_memory=True) as second:
        other = Client(await connect(second), task_queue=scene.deployment.name)
        await asyncio.gather(
            scene.worker("worker A"), scene.worker("worker B", address=second.address)
        )
        await asyncio.gather(
            scene.submit_all(), *(scene.submit(cell, other) for cell in scene.cells)
        )
        await asyncio.gather(scene.ended(), scene.ended(other))


async def _temporal_killed(scene: Scene) -> None:
    await _begun(scene)
    await scene.outside_has()
    await scene.stack.temporal.kill()
    scene.note("message", "Temporal killed (SIGKILL)")
    await scene.stack.temporal.start()
    scene.note("message", "Temporal answers again")
    await scene.ended()


async def _ledger_killed(scene: Scene) -> None:
    await _begun(scene)
    await scene.outside_has()
    await scene.stack.postgres.kill()
    scene.note("ledger", "ledger killed (SIGKILL)")
    await asyncio.sleep(scene.dice.uniform(_PAUSE_S, _SLOW_S))
    await scene.stack.postgres.start()
    scene.note("ledger", "ledger answers again")
    await scene.ended()


def _clock(seconds: int) -> Callable[[Scene], Awaitable[None]]:
    async def play(scene: Scene) -> None:
        for cell in scene.cells:
            trouble = scene.dice.choice(list(Trouble))
            scene.answer_first(cell, KNOBS[trouble])
            scene.note("outside", f"first request: {trouble}", cell)
        await scene.worker("worker A", variables=clock.environment(seconds))
        scene.note("worker", f"worker A's clock is {seconds:+d} s off, by {clock.how()}")
        await scene.submit_all()
        await scene.ended()

    return play


BUTTONS: Final = (
    Row(
        "activity-reset",
        "the running activity is reset from Temporal's side",
        _activity_reset,
        routes=QUEUED,
        timing=PATIENT,
    ),
    Row(
        "activity-unpause",
        "the running activity is paused and unpaused from Temporal's side",
        _activity_unpaused,
        routes=QUEUED,
        timing=PATIENT,
    ),
    Row(
        "workflow-reset",
        "the workflow is reset while its request is outside, and again when all is over",
        _workflow_reset,
        timing=PATIENT,
    ),
    Row(
        "terminated-and-restarted",
        "the workflow is terminated while its request is outside, and its message comes again",
        _terminated,
        timing=PATIENT,
    ),
    Row(
        "frozen-before-send",
        "a worker frozen between its claim and the call goes on after another one did the work",
        frozen_at(Point.AFTER_CLAIM),
    ),
    Row(
        "frozen-after-send",
        "a worker frozen while its request is outside goes on after another one finished",
        _frozen_after_send,
        timing=PATIENT,
        late_write=True,
    ),
    Row(
        "two-clusters",
        "two Temporal clusters with a worker each work on one ledger and get the same tasks",
        _two_clusters,
        most_submits=1,
    ),
    Row(
        "temporal-killed",
        "the Temporal server is killed while requests are outside, and started again",
        _temporal_killed,
        timing=PATIENT,
        own_servers=True,
    ),
    Row(
        "ledger-killed",
        "the ledger is killed while requests are outside, and started again",
        _ledger_killed,
        timing=PATIENT,
        own_servers=True,
    ),
    Row(
        "clock-ahead",
        "a worker's clock is two hours ahead, and the first answer of every effect is lost",
        _clock(_SHIFT_S),
    ),
    Row(
        "clock-behind",
        "a worker's clock is two hours behind, and the first answer of every effect is lost",
        _clock(-_SHIFT_S),
    ),
)
