"""``carry``: a chunk of a stream. Claims and records are grouped; every effect is pursued by itself.

What does not settle at once leaves the chunk: it becomes a task of its own, which begins with a lookup.
So a carry may be repeated as a whole: what it had begun is told apart by the claims.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError
from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from activities import breaker
from activities.attempt import Attempt, persist, to_its_end
from activities.dispatch import keepable, owner_of, request_for
from activities.heartbeat import beating
from activities.permit import steady
from activities.together import call_all
from ascertain import keys
from ascertain.contracts import claim, directive, names, outcome
from ascertain.contracts.effect import State
from ascertain.contracts.fault import faults
from ascertain.contracts.stream import Carried, Chunk, Tally
from ascertain.errors import InputError, LedgerDown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from activities.serving import Serving
    from ascertain.contracts.claim import ChunkAnswer, ClaimRequest
    from ascertain.contracts.effect import EffectRow
    from ascertain.contracts.outcome import Outcome
    from ascertain.contracts.task import Task
    from ascertain.ports import Adapter, Kind, Tasks

# An outcome that is known is worth more than this carry's time: the ledger is asked as long as that.
RECORD_TRIES = 5
CLOSED = frozenset({State.SETTLED, State.REFUSED})
# What is so is so for every task of this id, whoever brought it about.
ENDED = CLOSED | {State.ABANDONED}
ENDING = claim.Settled | claim.Refused


@dataclass(frozen=True, slots=True)
class Item:
    """A task that can be done here, in one step, with what its first claim asks."""

    task: Task
    kind: Kind
    adapter: Adapter
    request: ClaimRequest


class Carry:
    """The activity behind a stream."""

    def __init__(self, serving: Serving, tasks: Tasks) -> None:
        self._serving = serving
        self._tasks = tasks

    @activity.defn(name=names.CARRY)
    async def carry(self, chunk: RawValue, begun_at: datetime | None = None) -> Carried:
        """Do what can be done at once, and hand the rest over.

        Args:
            chunk: The tasks: a ``Chunk``, read here, for anybody may feed a stream.
            begun_at: When the stream was started: no task of it was begun before.

        Raises:
            ApplicationError: ``InvalidRequest``: it is no chunk; nothing was done, and it is not tried again.
            LedgerDown: No claim was answered, or not why one was not granted; carry it again.
            TemporalDown: Something could not be handed over; carry it again.
        """
        async with beating():
            return await to_its_end(self._carry(_read(chunk).tasks, begun_at))

    async def _carry(self, tasks: Sequence[Task], begun_at: datetime | None) -> Carried:
        items, rest = self._sorted(tasks, begun_at)
        asked_at = steady()
        answers = list(zip(items, await self._claims(items), strict=True))
        granted = [(item, told) for item, told in answers if isinstance(told, claim.Granted)]
        done, left = await self._attempts(granted, asked_at)
        unclaimed = [item for item, told in answers if told is None]
        stands = await self._standing(unclaimed)
        other = tuple(task_id for task_id, state in stands.items() if state is None)
        over = {task_id for task_id, state in stands.items() if state in {None, *ENDED}}
        leaving = [
            *rest,
            *(item.task for item in unclaimed if item.task.task_id not in over),
            *left,
        ]
        ended = [told.row.state for _, told in answers if isinstance(told, ENDING)]
        known = _counted(len(tasks), [*ended, *stands.values()])
        conflicting = (*other, *await self._hand_over(leaving, begun_at))
        gone = tuple(task.task_id for task in leaving if task.task_id not in conflicting)
        parted = Tally(handed_over=len(gone), conflicting=len(conflicting))
        held = [told for _, told in answers if isinstance(told, claim.Paused)]
        turns = [told.turn.wait for told in held if told.turn is not None]
        await self._meet(answers)
        return Carried(
            tally=known.plus(done).plus(parted),
            handed_over=gone,
            conflicting=conflicting,
            held=held[0].partition if held else None,
            held_for=min(turns, default=None),
        )

    async def _meet(self, answers: Iterable[tuple[Item, ChunkAnswer]]) -> None:
        met = {
            item.request.effect.partition: told
            for item, told in answers
            if isinstance(told, claim.Paused)
        }
        for partition, gate in met.items():
            await breaker.met(self._serving.breakers, self._serving.ledger, partition, gate)

    def _sorted(
        self, tasks: Iterable[Task], begun_at: datetime | None
    ) -> tuple[list[Item], list[Task]]:
        """What can be done here at once, and what is too much for a chunk."""
        owner = owner_of(self._serving)
        items: dict[str, Item] = {}
        rest: list[Task] = []
        for task in tasks:
            item = self._item(task, owner, begun_at)
            # One grant is for one call: an effect that a chunk names twice is claimed here once.
            if item is None or item.request.effect.effect_id in items:
                rest.append(task)
            else:
                items[item.request.effect.effect_id] = item
        return list(items.values()), rest

    def _item(self, task: Task, owner: str, begun_at: datetime | None) -> Item | None:
        step = task.steps[0]
        kind = self._serving.kinds.get(step.kind)
        if len(task.steps) > 1 or task.deadline is not None:
            return None
        if kind is None or kind.adapter is None or kind.queue is not None:
            return None
        try:
            effect = keys.effect_of(activity.info().namespace, task, step)
            effect = effect.model_copy(update={"begun_at": begun_at})
            frozen = keepable(kind.adapter.prepare(effect))
        except Exception:  # noqa: BLE001  # nothing was sent; its own task says what is wrong
            return None
        request = request_for(self._serving, kind, effect, frozen, owner=owner)
        return Item(task, kind, kind.adapter, request)

    async def _claims(self, items: Sequence[Item]) -> Sequence[ChunkAnswer]:
        if not items:
            return ()
        requests = [item.request for item in items]
        return await persist(lambda: self._serving.ledger.claim_many(requests))

    async def _standing(self, items: Iterable[Item]) -> dict[str, State | None]:
        """How the effects stand that the ledger has, or what they were amended to, by their tasks.

        None: it has other content under the id, so that of its own such a task could only fail.
        """
        found: dict[str, State | None] = {}
        for item in items:
            row = await self._row(item.request.effect.effect_id)
            if row is not None:
                same = row.fingerprint == item.request.fingerprint
                found[item.task.task_id] = await self._amended(row) if same else None
        return found

    async def _amended(self, row: EffectRow) -> State:
        """How the effect stands that came in the place of this one, or this one itself."""
        while row.superseded_by is not None:
            further = await self._row(row.superseded_by)
            if further is None:
                break  # it is yet to be begun
            row = further
        return row.state

    async def _row(self, effect_id: str) -> EffectRow | None:
        case = await persist(partial(self._serving.ledger.inspect, effect_id))
        return None if case is None else case.row

    async def _attempts(
        self, granted: Sequence[tuple[Item, claim.Granted]], asked_at: float
    ) -> tuple[Tally, list[Task]]:
        """Call for each, record together what is closed, and give back the tasks that are not."""
        attempts = [self._attempt(item, answer, asked_at) for item, answer in granted]
        endings = await call_all(attempts)
        ended = list(zip(attempts, endings, strict=True))
        written = await self._record_closed(ended)
        states = await asyncio.gather(*(_state(*end, written) for end in ended))
        left = [
            item.task
            for (item, _), state in zip(granted, states, strict=True)
            if state not in CLOSED
        ]
        tally = Tally(settled=states.count(State.SETTLED), refused=states.count(State.REFUSED))
        return tally, left

    def _attempt(self, item: Item, granted: claim.Granted, asked_at: float) -> Attempt:
        return Attempt(
            self._serving.ledger,
            item.kind,
            item.adapter,
            item.request.effect,
            granted,
            asked_at,
            self._serving.breakers,
            interruptible=False,
        )

    async def _record_closed(self, ended: Iterable[tuple[Attempt, Outcome]]) -> Collection[str]:
        closed = [
            (attempt.granted.lease, ending)
            for attempt, ending in ended
            if isinstance(ending, outcome.Settled | outcome.Refused)
        ]
        if not closed:
            return ()
        try:
            return await persist(lambda: self._serving.ledger.record_many(closed))
        except LedgerDown:
            return ()

    async def _hand_over(self, tasks: Iterable[Task], begun_at: datetime | None) -> tuple[str, ...]:
        """Start a workflow for each; gives back those that may not be started.

        Their ids were used for other content, or they came too late. What an earlier carry of the same
        chunk had begun may have been forgotten since, so each counts as begun when its stream was.
        """
        conflicting: list[str] = []
        for task in tasks:
            activity.heartbeat(task.task_id)
            try:
                await self._tasks.submit(task, begun_at)
            except InputError:
                conflicting.append(task.task_id)
        return tuple(conflicting)


def _counted(tasks: int, states: Sequence[State | None]) -> Tally:
    """What had ended before any of it was begun here."""
    return Tally(
        tasks=tasks,
        settled=states.count(State.SETTLED),
        refused=states.count(State.REFUSED),
        abandoned=states.count(State.ABANDONED),
    )


def _read(chunk: RawValue) -> Chunk:
    try:
        read = cast("object", activity.payload_converter().from_payload(chunk.payload, Chunk))
    except ValidationError as error:
        wrong = faults(error, "chunk")
    except Exception:  # noqa: BLE001  # a codec may raise anything over bytes that anybody sent
        wrong = "it cannot be read"
    else:
        if isinstance(read, Chunk):
            return read
        wrong = "it is no JSON"  # bytes stay bytes, whatever they are read as
    message = f"a chunk must be a list of tasks as JSON: {wrong}"
    raise ApplicationError(message, type="InvalidRequest", non_retryable=True)


async def _state(attempt: Attempt, ending: Outcome, written: Collection[str]) -> State | None:
    """How the effect stands; None while it is open. What was not written together is written alone."""
    if attempt.granted.lease.effect_id in written:
        return State.SETTLED if isinstance(ending, outcome.Settled) else State.REFUSED
    following = await attempt.record(ending)
    for _ in range(RECORD_TRIES):
        if not isinstance(following, directive.ReconcileIn) or following.unrecorded is None:
            break
        following = await attempt.record(ending)
    match following:
        case directive.Done():
            return State.SETTLED
        case directive.Refused(state=state):
            return state
        case _:
            return None
