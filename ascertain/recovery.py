"""What recovery asks of the world besides the ledger: the book of replays, and the tasks themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, assert_never

from ascertain.contracts.effect import State
from ascertain.contracts.replay import Item, Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascertain.contracts.command import Command, CommandAnswer
    from ascertain.contracts.replay import Outlook, Selection, Tally
    from ascertain.contracts.task import Task


@dataclass(frozen=True, slots=True)
class Standing:
    """An item and the effect as the ledger has it now."""

    item: Item
    state: State
    version: int
    attempt: int
    detail: str


class ReplayBook(Protocol):
    """Which effects belong to a replay and what became of each: part of the ledger's database."""

    async def select(self, replay_id: str, selection: Selection) -> None:
        """Add every effect that fits now; those that are there stay as they are."""
        ...

    async def kinds(self, replay_id: str) -> dict[str, int]:
        """How many items of each kind were not asked for yet."""
        ...

    async def unasked(self, replay_id: str, kind: str, limit: int) -> Sequence[Item]:
        """The next items of a kind that were not asked for yet."""
        ...

    async def foresee(
        self, replay_id: str, effect_id: str, outlook: Outlook, result: Result, detail: str
    ) -> None:
        """Write down what the dry run says of an item, once."""
        ...

    async def take(
        self, replay_id: str, batch: int, limit: int, *, through_gate: bool
    ) -> Item | None:
        """The next waiting item becomes STARTED in this batch; None if the batch is full or none waits."""
        ...

    async def begun(self, replay_id: str) -> Sequence[Standing]:
        """Items that are STARTED or OPEN, as they stand."""
        ...

    async def finish(self, replay_id: str, effect_id: str, result: Result, detail: str) -> None:
        """Write down what became of an item that was STARTED or OPEN."""
        ...

    async def tally(self, replay_id: str) -> Tally:
        """All items counted."""
        ...

    async def waiting(self, replay_id: str) -> dict[str, int]:
        """How many items of each partition have not come to rest."""
        ...

    async def items(self, replay_id: str, *, after: str = "", limit: int = 500) -> Sequence[Item]:
        """A page of the per-item report, by effect_id."""
        ...


class ReplayTasks(Protocol):
    """The tasks behind the items, told through the ordinary door."""

    async def content(self, task_id: str) -> Task | None:
        """What the task was started with; None if Temporal has forgotten it.

        Raises:
            TemporalDown: It cannot be told now.
        """
        ...

    async def command(self, task_id: str, command: Command) -> CommandAnswer:
        """Give a takeover command.

        Raises:
            NotFound: No workflow pursues the task.
            CommandRefused: The task did not admit it.
            TemporalDown: No worker answered; repeat it.
        """
        ...

    async def ask_now(self, task_id: str) -> None:
        """Have the task ask the outside now.

        Raises:
            NotFound: No workflow pursues the task.
        """
        ...

    async def start_again(self, task_id: str) -> bool:
        """Start a task whose workflow ended; it begins with its claim, so with a lookup.

        Returns:
            False if Temporal has forgotten it, so that only its submitter can start it again.
        """
        ...


def came_to(standing: Standing) -> Result | None:
    """What an item that was told has come to; None while it has not come to rest."""
    item = standing.item
    match standing.state:
        case State.SETTLED:
            return Result.DONE if standing.attempt > item.attempt else Result.FOUND
        case State.REFUSED:
            return Result.REFUSED
        case State.QUARANTINED:
            return Result.QUARANTINED if standing.version > item.version else None
        case State.TAKEN_OVER | State.ABANDONED | State.SUPERSEDED:
            return Result.MOVED
        case State.UNKNOWN | State.CLEAR | State.IN_FLIGHT | State.ACCEPTED:
            return None
        case _:
            assert_never(standing.state)
