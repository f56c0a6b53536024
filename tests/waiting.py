"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ascertain.errors import TemporalDown

T = TypeVar("T")

_PAUSE_SECONDS = 0.02


async def wait_until(
    condition: Callable[[], T | Awaitable[T | None] | None],
    within_s: float = 60,
    *,
    what: str = "the condition",
) -> T:
    """Ask again and again until the answer is true, and return it.

    Args:
        condition: Asked at least once; may be a coroutine function. While no worker or server answers
            it, it does not hold yet.
        within_s: How long to go on asking, in seconds.
        what: Said in the failure.

    Raises:
        AssertionError: It was not true in time; tells the last answer.
    """
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        try:
            answer = condition()
            value = await answer if inspect.isawaitable(answer) else answer
        except TemporalDown as error:  # a machine that stood still for seconds is asked again
            value, answered = None, error
        else:
            answered = value
        if value:
            return value
        if asyncio.get_running_loop().time() >= deadline:
            raise AssertionError(
                f"{what} did not hold within {within_s} s; last answer: {answered!r}"
            )
        await asyncio.sleep(_PAUSE_SECONDS)
