"""Wait for what other processes do, and give up with a sentence."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ascertain.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_PAUSE_SECONDS: Final = 0.05


async def until(holds: Callable[[], Awaitable[bool]], within: timedelta, what: str) -> None:
    """Ask again and again until the answer is yes.

    Raises:
        SetupError: It was not within that time; says that ``what`` did not come about.
    """
    deadline = asyncio.get_running_loop().time() + within.total_seconds()
    while not await holds():
        if asyncio.get_running_loop().time() >= deadline:
            raise SetupError(f"within {within.total_seconds():g} s {what}")
        await asyncio.sleep(_PAUSE_SECONDS)
