"""Reading what a process of ours serves, and running the one that reads the ledger."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.conftest import PROGRAM
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WITHIN_S = 60


async def fetch(port: int, path: str) -> tuple[int, str]:
    """The answer of a process; 0 while nobody listens."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}{path}") as answer,
        ):
            return answer.status, await answer.text()
    except aiohttp.ClientConnectionError:
        return 0, ""


async def series(port: int) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """Every sample that a process shows, by its name."""
    _, text = await fetch(port, "/metrics")
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


async def value(port: int, name: str, **labels: str) -> float | None:
    """The sum over the series that have these labels; None if there is none."""
    shown = (await series(port)).get(name, {})
    fitting = [number for has, number in shown.items() if labels.items() <= dict(has).items()]
    return sum(fitting) if fitting else None


async def becomes(port: int, wanted: float | None, name: str, **labels: str) -> None:
    """Wait until a process shows this value."""

    async def so() -> bool:
        return await value(port, name, **labels) == wanted

    await wait_until(so, WITHIN_S, what=f"{name} {labels} is {wanted}")


@asynccontextmanager
async def exporter(
    variables: dict[str, str], port: int
) -> AsyncIterator[asyncio.subprocess.Process]:
    """``ascertain metrics`` on the ledger of these variables, looking ten times a second."""
    process = await asyncio.create_subprocess_exec(
        *(PROGRAM, "metrics", "--listen", f"127.0.0.1:{port}", "--every", "100ms"),
        env=variables,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
