"""A worker of a peer, as a process of its own that sees the peers' packages."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from benchmarks.work import Work

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

OUTSIDE: Final = "BENCHMARK_OUTSIDE"
DATABASE: Final = "BENCHMARK_DATABASE"
PORT: Final = "BENCHMARK_PORT"
_PACKAGES: Final = "PYTHONPATH"


@asynccontextmanager
async def start(name: str, folder: Path, environment: Mapping[str, str]) -> AsyncGenerator[Work]:
    """Run ``benchmarks.peer.NAME_worker`` until the end.

    Raises:
        SetupError: It ended, or is not ready.
    """
    packages = {_PACKAGES: os.environ.get(_PACKAGES, "")}
    module = f"benchmarks.peer.{name}_worker"
    work = Work(name, module, folder, {**packages, **environment})
    try:
        await work.ready()
        yield work
    finally:
        await work.kill()
