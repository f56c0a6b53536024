"""The nine rows of the protocol: between which two lines a fault strikes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from temporalio.api.enums.v1 import EventType

from ascertain.errors import Conflict, SetupError
from ascertain.testing.knob import Drop, SubmitKnobs
from ascertain.testing.proxy import FaultProxy
from drill.deployment import Timing
from drill.kind import OutsideClass, Route
from drill.points import Point, Strike

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from drill.matrix.scene import Cell, Scene

BOTH: Final = tuple(Route)
QUEUED: Final = (Route.QUEUED,)
# An outside that is slow to answer, and callers that wait for it.
PATIENT: Final = Timing(timeout_s=4)
BUDGET: Final = 2
_DELIVERIES: Final = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the matrix.

    Attributes:
        about: What happens, in a sentence.
        play: Does it; afterwards every task is over.
        late_write: The frozen owner writes too late; it must be refused, and what it knew kept.
        moves: These must stand in every audit trail.
        most_submits: The outside may receive at most so many requests; None: one per claim.
        decided: A person decides, whatever the class of outside.
        own_servers: Runs on servers of its own, because it kills them.
    """

    name: str
    about: str
    play: Callable[[Scene], Awaitable[None]]
    routes: tuple[Route, ...] = BOTH
    timing: Timing = field(default_factory=Timing)
    late_write: bool = False
    moves: frozenset[str] = frozenset()
    most_submits: int | None = None
    decided: bool = False
    own_servers: bool = False


def _killed_at(point: Point) -> Callable[[Scene], Awaitable[None]]:
    async def play(scene: Scene) -> None:
        doomed = await scene.doomed(point)
        await scene.submit_all()
        await scene.dead(doomed)
        await scene.worker("worker B")
        await scene.ended()

    return play


def frozen_at(point: Point) -> Callable[[Scene], Awaitable[None]]:
    """A worker is frozen at the point, another one finishes its work, and then it goes on."""

    async def play(scene: Scene) -> None:
        doomed = await scene.doomed(point, Strike.FREEZE)
        await scene.submit_all()
        await scene.stopped(doomed)
        await scene.unfinished()
        await scene.worker("worker B")
        await scene.ended()
        await scene.thawed(doomed)

    return play


async def _heartbeat_interrupted(scene: Scene) -> None:
    """The worker goes on working, and Temporal hears nothing of it any more."""
    temporal = scene.stack.temporal
    async with FaultProxy("127.0.0.1", temporal.port, protocol="bytes") as proxy:
        scene.slow_answers(3)
        await scene.worker("worker A", address=f"127.0.0.1:{proxy.port}")
        await scene.submit_all()
        await scene.outside_has()
        await proxy.black_hole()
        scene.note("worker", "worker A is cut off from Temporal")
        await scene.worker("worker B")
        await scene.ended()
    for cell in scene.cells:
        if EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT not in await scene.history(cell):
            raise SetupError(f"{cell.task_id} was not handed out again")


async def _consumed_concurrently(scene: Scene) -> None:
    await asyncio.gather(scene.worker("worker A"), scene.worker("worker B"))
    consumed = await asyncio.gather(
        *(scene.submit(cell) for cell in scene.cells for _ in range(_DELIVERIES))
    )
    first = sum(not (done.duplicate or done.restarted) for done in consumed)
    if first != len(scene.cells):
        raise SetupError(f"{first} tasks were started by {len(scene.cells)} messages")
    await scene.ended()


async def _published_twice(scene: Scene) -> None:
    """Again at once, again when all is over, again with other content, and again once Temporal forgot it."""
    await scene.worker("worker A")
    await scene.submit_all()
    await scene.submit_all()
    await scene.ended()
    await asyncio.gather(*(_again(scene, cell) for cell in scene.cells))
    await asyncio.gather(*(scene.deployment.forget(cell.task_id) for cell in scene.cells))
    scene.note("message", "Temporal has forgotten the task")
    await scene.submit_all()
    await scene.ended()


async def _again(scene: Scene, cell: Cell) -> None:
    if not (await scene.submit(cell)).duplicate:
        raise SetupError(f"{cell.task_id}: a repeated message was not known as one")
    try:
        await scene.deployment.client.submit(cell.task(partition="other"))
    except Conflict:
        scene.note("message", "delivered with other content: conflict", cell)
        return
    raise SetupError(f"{cell.task_id}: other content under the same id was taken")


async def _replayed(scene: Scene) -> None:
    """Automation gives up, and a person sends the work back."""
    nothing = SubmitKnobs(commit="never", reply=Drop(how="reset"))
    for cell in scene.cells:
        times = 1 if cell.outside is OutsideClass.NEITHER else BUDGET
        scene.answer_first(cell, nothing, times)
    await scene.worker("worker A")
    await scene.submit_all()
    await scene.ended()


ROWS: Final = (
    Row(
        "crash-before-claim",
        "a worker is killed after it took the work and before it claimed it",
        _killed_at(Point.BEFORE_CLAIM),
        most_submits=1,
    ),
    Row(
        "crash-before-call",
        "a worker is killed between its claim and the call",
        _killed_at(Point.AFTER_CLAIM),
    ),
    Row(
        "crash-after-call",
        "a worker is killed after the call succeeded and before it recorded that",
        _killed_at(Point.AFTER_ANSWER),
    ),
    Row(
        "lost-acknowledgement",
        "a worker is killed after it recorded the outcome and before it told Temporal",
        _killed_at(Point.AFTER_RECORD),
        most_submits=1,
    ),
    Row(
        "heartbeat-interrupted",
        "a working worker is cut off from Temporal, and its work is handed out again",
        _heartbeat_interrupted,
        routes=QUEUED,
        timing=PATIENT,
    ),
    Row(
        "stale-late-write",
        "a worker frozen before its record goes on after another one has finished its work",
        frozen_at(Point.AFTER_ANSWER),
        late_write=True,
    ),
    Row(
        "consumed-concurrently",
        f"{_DELIVERIES} consumers of one message submit its task at once, and two workers poll",
        _consumed_concurrently,
        most_submits=1,
    ),
    Row(
        "published-twice",
        "the message comes again: at once, afterwards, with other content, and after retention",
        _published_twice,
        most_submits=1,
    ),
    Row(
        "replay-from-quarantine",
        "automation gives an effect up, and a person sends it back",
        _replayed,
        timing=Timing(budget=BUDGET),
        moves=frozenset({"quarantine"}),
        decided=True,
    ),
)
