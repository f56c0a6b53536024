"""``replay_ask``: the dry run of a replay. It asks the outside for every item and changes nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from temporalio import activity

from activities.heartbeat import beating
from activities.question import ask
from activities.serving import Served
from ascertain import keys, policy
from ascertain.contracts import finding, names
from ascertain.contracts.effect import Effect, State, Undone
from ascertain.contracts.replay import Ask, Outlook, Result, Tally
from ascertain.errors import LookupDown, TemporalDown
from ascertain.ports import Call
from ascertain.wait import conclusive_at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from activities.serving import Serving
    from ascertain.contracts.effect import EffectRow
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.replay import Item
    from ascertain.contracts.task import Task
    from ascertain.ports import Case, Kind
    from ascertain.recovery import ReplayBook, ReplayTasks

# An outside that limits its callers is asked again after so many seconds before it counts as down.
PAUSES_S = (1, 2, 4)
AT_ONCE = 16
# Right after an outage an empty answer says nothing yet; so long it is waited for, not left to a person.
SOON = timedelta(seconds=30)
# What a retry can settle without a person; the rest is left to one.
WORTH_A_RETRY = frozenset({Outlook.THERE, Outlook.ABSENT, Outlook.KEY_ALIVE})

Seen = tuple[Outlook, str]


class ReplayAsk:
    """The activity that asks for a replay's items of one kind, where that kind's adapter is."""

    def __init__(self, serving: Serving, book: ReplayBook, tasks: ReplayTasks) -> None:
        self._serving = serving
        self._book = book
        self._tasks = tasks

    @activity.defn(name=names.REPLAY_ASK)
    async def ask(self, given: Ask) -> Tally:
        """Ask for the next items, and write down what each looks like."""
        async with beating():
            items = await self._book.unasked(given.replay_id, given.kind, given.limit)
            await paced(items, given.rate, lambda item: self._foresee(given.replay_id, item))
            return await self._book.tally(given.replay_id)

    async def _foresee(self, replay_id: str, item: Item) -> None:
        outlook, detail = await self._outlook(item)
        result = Result.WAITING if outlook in WORTH_A_RETRY else Result.LEFT
        if outlook is Outlook.MOVED:
            result = Result.MOVED
        await self._book.foresee(replay_id, item.effect_id, outlook, result, detail)

    async def _outlook(self, item: Item) -> Seen:
        case = await self._case(item)
        if case is None or _has_moved(item, case.row):
            return Outlook.MOVED, f"it is {case.row.state if case else 'gone'} now"
        served = self._serving.find(item.kind)
        if not isinstance(served, Served):
            return Outlook.UNKNOWN, served.reason
        if case.late:
            return Outlook.THERE, "a worker's answer that came too late proves it"
        if served.kind.semantics.lookup is None:
            return without_lookup(case.row, served.kind)
        return await self._look(served, case.row)

    async def _case(self, item: Item) -> Case | None:
        """What stands; if an empty answer will soon say something, as it stands then."""
        case = await self._serving.ledger.inspect(item.effect_id)
        if case is None or _has_moved(item, case.row):
            return case
        served = self._serving.find(item.kind)
        if not isinstance(served, Served) or served.kind.semantics.lookup is None:
            return case
        early = conclusive_at(case.row, served.kind) - case.row.now
        if not timedelta(0) < early <= SOON:
            return case
        await asyncio.sleep(early.total_seconds())
        return await self._serving.ledger.inspect(item.effect_id)

    async def _look(self, served: Served, row: EffectRow) -> Seen:
        try:
            task = await self._tasks.content(row.task_id)
        except TemporalDown as error:
            return Outlook.UNKNOWN, str(error)
        effect = await self._effect(task, row) if task is not None else None
        if effect is None:
            why = "what its task was started with is not known here; its own task can ask"
            return Outlook.UNKNOWN, why
        call = Call.about(effect, row)
        for pause_s in PAUSES_S:
            try:
                return seen(row, await ask(served, call), served.kind)
            except LookupDown:
                await asyncio.sleep(pause_s)
        try:
            return seen(row, await ask(served, call), served.kind)
        except LookupDown as error:
            return Outlook.UNKNOWN, str(error)

    async def _effect(self, task: Task, row: EffectRow) -> Effect | None:
        """The effect as its own task asks for it; None if its input is not that of the row."""
        base = row.step.removesuffix(keys.UNDO_SUFFIX)
        step = next((step for step in task.steps if step.name == base), None)
        if step is None:
            return None
        undoes = None
        content = step.input
        if row.step != base:
            done = await self._serving.ledger.inspect(self._first_of(task, base))
            if step.undo is None or done is None or done.row.external_id is None:
                return None
            content = step.undo.input
            undoes = Undone(effect_id=done.row.effect_id, external_id=done.row.external_id)
        if keys.fingerprint(row.kind, content) != row.fingerprint:  # a person amended it
            return None
        return Effect(
            effect_id=row.effect_id,
            task_id=row.task_id,
            step=row.step,
            revision=row.revision,
            kind=row.kind,
            partition=row.partition,
            message_id=row.message_id,
            input=content,
            undoes=undoes,
        )

    def _first_of(self, task: Task, step: str) -> str:
        return keys.effect_id(activity.info().namespace, task.task_id, step, 0)


def _has_moved(item: Item, row: EffectRow) -> bool:
    """What was in doubt moves by itself all the time; what was in quarantine only by somebody."""
    if item.state is State.QUARANTINED:
        return row.version != item.version
    return row.state not in {State.UNKNOWN, State.IN_FLIGHT, State.ACCEPTED, State.QUARANTINED}


def without_lookup(row: EffectRow, kind: Kind) -> Seen:
    """What can be said of an effect whose outside cannot be asked: whether its key protects."""
    ends = policy.key_ends(row, kind)
    if ends is None:
        return Outlook.UNKNOWN, "the outside cannot be asked and no key protects a re-send"
    until = f"{ends:%Y-%m-%d %H:%M:%S} UTC"
    if not policy.key_protects(row, kind):
        return Outlook.KEY_EXPIRED, f"the key protected a re-send until {until}"
    return Outlook.KEY_ALIVE, f"the key protects a re-send until {until}"


def seen(row: EffectRow, found: Finding, kind: Kind) -> Seen:
    """What a finding promises of a retry."""
    match found:
        case finding.Found():
            return Outlook.THERE, f"the outside has it as {found.receipt.external_id}"
        case finding.Absent():
            return _absent(row, kind)
        case finding.Refused():
            return Outlook.UNKNOWN, f"the outside says refused: {found.detail or found.error_class}"
        case finding.Pending():
            return Outlook.UNKNOWN, found.detail or "the outside is still working on it"
        case finding.Several():
            return Outlook.UNKNOWN, f"several facts carry this id: {', '.join(found.external_ids)}"
        case finding.Differs():
            return Outlook.UNKNOWN, f"the fact {found.external_id} differs from what was asked for"
        case finding.Unknowable():
            return Outlook.UNKNOWN, found.detail or "the outside's answer cannot tell"
        case _:
            assert_never(found)


def _absent(row: EffectRow, kind: Kind) -> Seen:
    conclusive = conclusive_at(row, kind)
    if row.now < conclusive:
        why = f"not visible yet; an empty answer is conclusive from {conclusive:%H:%M:%S} UTC"
        return Outlook.UNKNOWN, why
    protected = policy.key_protects(row, kind)
    lag = kind.semantics.lag
    if lag == timedelta(0) or protected or kind.policy.resend_unprotected:
        return Outlook.ABSENT, "the outside does not have it; a retry does it once more"
    if policy.key_ends(row, kind) is not None:
        return Outlook.KEY_EXPIRED, "absent past the declared lag, but its key protects no more"
    return Outlook.UNKNOWN, "absent past the declared lag, but no key protects a re-send"


async def paced(
    items: Sequence[Item], rate: float, work: Callable[[Item], Awaitable[None]]
) -> None:
    """Begin the work on the items at most ``rate`` a second, a few at once; the first error ends all."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(item: Item) -> None:
        try:
            await work(item)
        finally:
            free.release()

    async with asyncio.TaskGroup() as group:
        for item in items:
            await free.acquire()
            group.create_task(one(item))
            await asyncio.sleep(1 / rate)
