from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from ascertain.testing.outside import Outside


@pytest.fixture
async def outside() -> AsyncIterator[Outside]:
    async with Outside() as running:
        yield running


@pytest.fixture
async def http(outside: Outside) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=outside.url, timeout=20) as client:
        yield client
