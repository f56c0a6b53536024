"""A check by its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ascertain.testing.conformance.bench import Bench


@dataclass(frozen=True)
class Check:
    """One rule that every adapter keeps.

    Attributes:
        name: Stable, for machines.
        rule: In one sentence, for people.
        run: Raises ``Failed`` or ``NotTried``; anything else that it raises is a fault of the kit.
    """

    name: str
    rule: str
    run: Callable[[Bench], Awaitable[None]]
