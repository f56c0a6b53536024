"""A task that Temporal has no workflow of: a stream carries or carried it, or it ended long ago.

Only the ledger tells what became of it.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ascertain.cli.known import OPEN
from ascertain.cli.listing import Listed
from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.contracts.task import StepResult, TaskOutcome, TaskResult
from ascertain.ending import FORGOTTEN
from ascertain.errors import AlreadyOver, AscertainError, CommandRefused, NotFound
from ascertain.keys import UNDO_SUFFIX
from ascertain.ports import EffectFilter
from ascertain.stream import workflow_id

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from ascertain.cli.place import Place
    from ascertain.client import Client
    from ascertain.contracts.effect import EffectRow

_MOST_STREAMS: Final = 3
# What a step that did not settle ends its task with.
_ENDS: Final = {State.REFUSED: TaskOutcome.REFUSED, State.ABANDONED: TaskOutcome.ABANDONED}


@dataclass(slots=True)
class Carried:
    """One task without a workflow, looked at again and again.

    Attributes:
        say: Told where the result is from, and what the task waits for whenever that is something else.
    """

    client: Client
    where: Place
    task_id: str
    say: Callable[[str], None]
    _said: str = ""
    _rows: list[EffectRow] = field(default_factory=list["EffectRow"])

    async def result(self) -> TaskResult | None:
        """What the ledger says became of it; None while it is not over.

        Raises:
            NotFound: It says nothing, or there is none to be asked.
            Unavailable, SetupError: It cannot be asked.
        """
        if not self.where.has_ledger:
            raise NotFound(f"Temporal has no task {self.task_id}, and no ledger is configured")
        async with self.where.ledger() as ledger:
            self._rows = sorted(
                await ledger.effects(EffectFilter.of_task(self.task_id)),
                key=lambda row: row.created_at,
            )
        if not self._rows:
            streams = await self._streams()
            hope = (
                f", unless a stream that runs has not come to it yet: {streams}" if streams else ""
            )
            raise NotFound(f"there is no task {self.task_id}{hope}")
        told = result_of(self.task_id, self._rows)
        if told is None:
            self._tell(f"Task {self.task_id} {await self._waits()}. The wait goes on.")
        else:
            self._tell(
                f"Temporal has no workflow of task {self.task_id}: a stream carried it, or it ended longer "
                "ago than is kept. This is from the ledger, which knows no step that was never begun."
            )
        return told

    async def missed(self, refusal: NotFound) -> AscertainError:
        """What a command is told that finds no workflow of it; the refusal where no ledger tells more."""
        try:
            if await self.client.ended(self.task_id) != FORGOTTEN:
                return refusal
            told = await self.result()
            if told is None:
                return CommandRefused(f"task {self.task_id} {await self._waits()}")
        except AscertainError:
            return refusal
        return AlreadyOver(
            f"task {self.task_id} is {told.outcome}, so nothing can be told it any more: a stream carried "
            "it, or it ended longer ago than Temporal keeps"
        )

    def listed(self, result: TaskResult) -> Listed:
        """The same as a list shows it; what kind of task it was stands nowhere."""
        since = max(row.state_since for row in self._rows)
        partition = self._rows[0].partition
        return Listed(self.task_id, "", partition, result.outcome.value, since, "", "")

    def _tell(self, words: str) -> None:
        if words != self._said:
            self.say(words)
        self._said = words

    async def _waits(self) -> str:
        states = {row.state for row in self._rows if row.state in OPEN}
        if not states & {State.QUARANTINED, State.TAKEN_OVER} and (
            streams := await self._streams()
        ):
            return f"has no workflow of its own, so a stream that runs is carrying it: {streams}"
        return (
            f"stands at {', '.join(sorted(states)) or State.SUPERSEDED}, and no workflow pursues it before a "
            f"sweep takes it up: `ascertain explain {self.task_id}` says what is known and what is safe next"
        )

    async def _streams(self) -> str:
        """What to look at to learn of streams that run; empty if none does."""
        query = f"WorkflowType = '{names.STREAM_WORKFLOW}' AND ExecutionStatus = 'Running'"
        with answered("look for streams"):
            found = self.client.temporal.list_workflows(
                query, limit=_MOST_STREAMS, rpc_timeout=RPC_TIMEOUT
            )
            running = [run.id.removeprefix(workflow_id("")) async for run in found]
        looks = " or ".join(f"`ascertain stream status {name}`" for name in running)
        return looks and f"{looks} says how far that is"


@asynccontextmanager
async def commanding(client: Client, where: Place, task_id: str) -> AsyncGenerator[None]:
    """Say of a task that cannot be told anything what stands in the ledger, if Temporal does not have it.

    Raises:
        AlreadyOver, CommandRefused: Instead of ``NotFound``, where the ledger knows it.
    """
    try:
        yield
    except NotFound as refusal:
        raise await Carried(client, where, task_id, lambda _: None).missed(refusal) from refusal


def result_of(task_id: str, rows: Sequence[EffectRow]) -> TaskResult | None:
    """What became of a task with these effects; None while one can still move, or is yet to be begun."""
    begun = {row.effect_id for row in rows}
    if any(row.state in OPEN or (row.superseded_by or row.effect_id) not in begun for row in rows):
        return None
    last = [row for row in rows if row.state is not State.SUPERSEDED]
    steps = tuple(_step(row) for row in last if not row.step.endswith(UNDO_SUFFIX))
    undone = tuple(_step(row) for row in last if row.step.endswith(UNDO_SUFFIX))
    done = TaskOutcome.CANCELLED if undone else TaskOutcome.DONE
    outcome = next((_ENDS[step.state] for step in steps if step.state in _ENDS), done)
    return TaskResult(task_id=task_id, outcome=outcome, steps=steps, undone=undone)


def _step(row: EffectRow) -> StepResult:
    reason = "" if row.state is State.SETTLED else row.evidence.detail or row.evidence.rule
    return StepResult(
        step=row.step, effect_id=row.effect_id, state=row.state, receipt=row.receipt, reason=reason
    )
