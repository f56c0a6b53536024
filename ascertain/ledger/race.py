"""Statements that lost a race against one that their snapshot does not show: they are asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from ascertain.errors import BY_ITSELF, LedgerDown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Answer = TypeVar("Answer")

# Each time the other one has committed, so more than a few rounds mean that something else is wrong.
_ROUNDS: Final = 5


async def won(what: str, ask: Callable[[], Awaitable[Answer | None]]) -> Answer:
    """The first answer; None means that the race was lost.

    Args:
        what: What others moved, for the message.
        ask: Sends the statement.

    Raises:
        LedgerDown: Others moved it again and again.
    """
    for _ in range(_ROUNDS):
        answer = await ask()
        if answer is not None:
            return answer
    raise LedgerDown(f"{what}: others moved it {_ROUNDS} times before us{BY_ITSELF}")
