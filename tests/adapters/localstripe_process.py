"""localstripe as a process of its own: it is somebody else's program under its own licence."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING

from starter.process import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# By itself it listens on every interface and writes its state into one file of a fixed name, which every
# run on this machine would share.
_SERVE = """
import sys
from aiohttp import web
import localstripe.resources, localstripe.server
localstripe.resources.Store.dump_to_disk = lambda store: None
web.run_app(localstripe.server.app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
"""
_DEADLINE_SECONDS = 60


@contextlib.asynccontextmanager
async def localstripe() -> AsyncIterator[str]:
    """Its address; an empty shop."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SERVE, str(port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await _listens(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


async def _listens(port: int) -> None:
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
                return
            await asyncio.sleep(0.02)
