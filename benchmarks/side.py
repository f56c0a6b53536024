"""One of the sides that do the same job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from benchmarks.cpu import Part, Process
    from benchmarks.plan import Contender


@dataclass(frozen=True, slots=True)
class Side:
    """What the measurement needs of a side.

    Attributes:
        do: Do one task of this id, from its start to the durable result in the client's hands.
        processes: Whose processor time is its cost.
        events: How many history events a finished task has; None where there is no history.
        database: The address of its database; None where it has none.
    """

    contender: Contender
    do: Callable[[str], Awaitable[None]]
    processes: Mapping[Part, Process]
    events: Callable[[str], Awaitable[int]] | None = None
    database: str | None = None
