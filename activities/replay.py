"""``replay_select`` and ``replay_act``: which effects a replay is about, and one batch of it.

Nothing here claims or calls outside: each task is told through its ordinary door, by expected version.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from temporalio import activity

from activities.heartbeat import beating
from ascertain.contracts import names
from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import State
from ascertain.contracts.replay import Act, Group, Result, Select, Selected, Tally
from ascertain.errors import CommandRefused, NotFound, Unavailable
from ascertain.machine import Move
from ascertain.recovery import came_to

if TYPE_CHECKING:
    from collections.abc import Mapping

    from activities.serving import Serving
    from ascertain.contracts.command import CommandAnswer
    from ascertain.contracts.gate import Gate
    from ascertain.contracts.replay import Item
    from ascertain.recovery import ReplayBook, ReplayTasks, Standing

LOOK_EVERY_S = 0.5
# A task that was told and has not moved is told again: the command's request id makes that safe.
TELL_AGAIN_S = 5.0
AT_ONCE = 16


class ReplaySelect:
    """The activity that fixes which effects a replay is about."""

    def __init__(self, serving: Serving, book: ReplayBook) -> None:
        self._serving = serving
        self._book = book

    @activity.defn(name=names.REPLAY_SELECT)
    async def select(self, given: Select) -> Selected:
        """Select once; a repeat finds what is there."""
        async with beating():
            await self._book.select(given.replay_id, given.selection)
            kinds = await self._book.kinds(given.replay_id)
            groups = tuple(
                Group(kind=kind, queue=self._queue(kind), items=items)
                for kind, items in kinds.items()
            )
            return Selected(groups=groups, tally=await self._book.tally(given.replay_id))

    def _queue(self, kind: str) -> str | None:
        known = self._serving.kinds.get(kind)
        return known.queue if known is not None else None


class ReplayAct:
    """The activity that tells one batch to go on and waits until it has come to rest."""

    def __init__(self, serving: Serving, book: ReplayBook, tasks: ReplayTasks) -> None:
        self._serving = serving
        self._book = book
        self._tasks = tasks

    @activity.defn(name=names.REPLAY_ACT)
    async def act(self, given: Act) -> Tally:
        """Tell the batch, at its rate, and count what became of everything so far.

        A worker that is killed here is followed by another, which finds in the book what was told.
        """
        async with beating():
            batch = _Batch(self._serving, self._book, self._tasks, given)
            await batch.tell()
            await batch.rest()
            return await self._book.tally(given.replay_id)


class _Batch:
    def __init__(self, serving: Serving, book: ReplayBook, tasks: ReplayTasks, given: Act) -> None:
        self._ledger = serving.ledger
        self._book = book
        self._tasks = tasks
        self._given = given
        self._told_at: dict[str, float] = {}
        self._heard: set[str] = set()
        self._free = asyncio.Semaphore(AT_ONCE)

    async def tell(self) -> None:
        """Take item by item into the batch and tell each; ``rest`` tells what a killed worker took."""
        given = self._given
        async with asyncio.TaskGroup() as telling:
            while True:
                item = await self._book.take(
                    given.replay_id, given.batch, given.limit, through_gate=given.through_gate
                )
                if item is None:
                    return
                telling.create_task(self._tell(item))
                await asyncio.sleep(1 / given.rate)

    async def rest(self) -> None:
        """Wait until every item has come to rest; what has not in time goes on by itself."""
        patience = self._given.patience.total_seconds()
        begun = asyncio.get_running_loop().time()
        while True:
            open_yet = [each for each in await self._book.begun(self._id) if await self._open(each)]
            started = [each for each in open_yet if each.item.result is Result.STARTED]
            if not started:
                return
            if asyncio.get_running_loop().time() - begun > patience:
                break
            async with asyncio.TaskGroup() as telling:
                for standing in started:
                    if self._untold(standing):
                        telling.create_task(self._tell(standing.item))
            await asyncio.sleep(LOOK_EVERY_S)
        closed = {gate.partition: gate for gate in await self._ledger.gates() if gate.paused}
        for standing in started:
            why = f"it is {standing.state} and goes on by itself: {standing.detail}"
            gate = self._stopped_by(standing, closed)
            if gate is not None:
                why = (
                    f"it is {standing.state} and held by a gate, paused since "
                    f"{gate.since:%Y-%m-%d %H:%M:%S} UTC by {gate.by}: {gate.reason}; it goes on by itself "
                    "once that is resumed"
                )
            await self._finish(standing.item, Result.OPEN, why)

    def _stopped_by(self, standing: Standing, closed: Mapping[str, Gate]) -> Gate | None:
        """The gate that keeps what is proven absent from being sent."""
        if standing.state is not State.CLEAR:
            return None
        own = None if self._given.through_gate else closed.get(standing.item.partition)
        return closed.get("*") or own

    @property
    def _id(self) -> str:
        return self._given.replay_id

    async def _open(self, standing: Standing) -> bool:
        """Whether it is not at rest; what is, is written down."""
        result = came_to(standing)
        if result is None:
            return True
        if standing.item.state is State.QUARANTINED and not await self._is_ours(standing.item):
            why = f"somebody else moved it; it is {standing.state}: {standing.detail}"
            await self._finish(standing.item, Result.MOVED, why)
            return False
        await self._finish(standing.item, result, standing.detail)
        return False

    def _untold(self, standing: Standing) -> bool:
        """Whether the ledger shows no sign yet that its task heard of it."""
        quiet = asyncio.get_running_loop().time() - TELL_AGAIN_S
        heard = self._told_at.get(standing.item.effect_id)
        item = standing.item
        # The move of the command itself may be all that the ledger has, if its answer was lost.
        lost = item.state is State.QUARANTINED and item.effect_id not in self._heard
        waits = standing.version <= item.version + lost
        return waits and (heard is None or heard < quiet)

    async def _tell(self, item: Item) -> None:
        async with self._free:
            self._told_at[item.effect_id] = asyncio.get_running_loop().time()
            try:
                await self._through_the_door(item)
            except (CommandRefused, NotFound):
                return  # it begins or ends right now: what stands is read again, and it is told again
            except Unavailable:
                return

    async def _through_the_door(self, item: Item) -> None:
        try:
            await self._command(item)
        except NotFound:
            if await self._tasks.start_again(item.task_id):
                return  # told once it has come to its effect
            why = (
                "its workflow is gone and forgotten: submit the task again, it begins with a lookup"
            )
            await self._finish(item, Result.LEFT, why)

    async def _command(self, item: Item) -> None:
        if item.state is State.UNKNOWN:
            await self._tasks.ask_now(item.task_id)
            return
        given = self._given
        command = Command(
            action=Action.RETRY,
            operator=given.operator,
            reason=f"{given.reason} (replay {given.replay_id})",
            version=item.version,
            effect_id=item.effect_id,
            request_id=self._mark(item),
        )
        answer = await self._tasks.command(item.task_id, command)
        if answer.applied:
            self._heard.add(item.effect_id)
            return
        case = await self._ledger.inspect(item.effect_id)
        if case is None or case.row.version == item.version:
            if _is_final(answer):
                await self._finish(item, Result.LEFT, answer.message)
        elif not await self._is_ours(item):
            await self._finish(item, Result.MOVED, answer.message)

    async def _is_ours(self, item: Item) -> bool:
        """Whether the trail holds this replay's own command."""
        mark = self._mark(item)
        return any(
            event.move == Move.RETRY and event.evidence.body.get("request_id") == mark
            for event in await self._ledger.audit(item.effect_id)
        )

    def _mark(self, item: Item) -> str:
        """The request id of this replay's command for the item, which tells it from all others."""
        digest = hashlib.sha256(f"{self._id}/{item.effect_id}".encode()).hexdigest()
        return f"replay-{digest[:32]}"

    async def _finish(self, item: Item, result: Result, detail: str) -> None:
        await self._book.finish(self._id, item.effect_id, result, detail)


def _is_final(answer: CommandAnswer) -> bool:
    """Whether telling it again would be answered the same: all but what could not be looked into."""
    return not answer.in_doubt and "cannot be applied here now" not in answer.message
