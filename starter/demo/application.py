"""What the demonstration asks of the side that makes the payments: Ascertain, or the naive one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ascertain.contracts.task import Task
    from starter.demo.compare import Recorded
    from starter.demo.seat import Program


@dataclass(frozen=True, slots=True)
class Account:
    """What the side says of its own work.

    Attributes:
        recorded: What its ledger says, by effect; None where there is no ledger.
        reconciled: Effects whose outcome was found by asking the outside.
        fenced: Writes of an owner that had lost its claim: refused, and kept as evidence.
        quarantined: Effects that wait for a person.
    """

    recorded: Mapping[str, Recorded] | None = None
    reconciled: int = 0
    fenced: int = 0
    quarantined: int = 0


class Application(Protocol):
    """One way to make the payments."""

    def program(self, seat: str, api_base: str) -> Program:
        """How a worker is started that reaches the outside at ``api_base`` alone."""
        ...

    async def submit(self, task: Task) -> None:
        """Start a task."""
        ...

    async def outcome(self, task_id: str) -> str:
        """Wait for the end of a task and say how it ended: ``DONE``, ``REFUSED`` or something else."""
        ...

    async def states(self) -> Mapping[str, str]:
        """Where tasks stand that are not over; one that is left out just runs."""
        ...

    async def overtaken(self, effect_id: str) -> bool:
        """Whether somebody else has finished this effect while its worker was frozen."""
        ...

    async def thawed(self, effect_id: str) -> str:
        """Wait for what a thawed worker does about the effect that it was frozen in; in words."""
        ...

    async def account(self) -> Account:
        """What it says of its own work, once every task is over."""
        ...
