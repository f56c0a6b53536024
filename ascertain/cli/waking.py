"""Telling many tasks something at once, spread out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ascertain.cli.progress import Progress
from ascertain.cli.text import counted
from ascertain.errors import NotFound, SetupError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ascertain.cli.place import Place
    from ascertain.client import Client

# Told in a second; a fleet of workers takes more than they can do at once.
RATE: Final = 50.0
_MOST_TASKS: Final = 1_000_000


async def wake(
    where: Place, query: str, tell: Callable[[Client, str], Awaitable[None]], rate: float = RATE
) -> tuple[int | None, str]:
    """Tell every task that a search finds.

    Args:
        where: The deployment.
        query: Of visibility, which lags by about a second.
        tell: What is said to a task of this id.
        rate: So many a second at most.

    Returns:
        How many were told, and why not all; None: not one, for they could not be searched.
    """
    progress, told = Progress(), 0
    try:
        client = await where.client()
        async for task in client.tasks(query, limit=_MOST_TASKS):
            try:
                await tell(client, task.id)
            except NotFound:  # over meanwhile
                continue
            told += 1
            progress.show(f"{counted(told, 'task', 'tasks')} told")
            await asyncio.sleep(1 / rate)
    except (Unavailable, SetupError) as error:
        return told or None, str(error)
    finally:
        progress.clear()
    return told, ""
