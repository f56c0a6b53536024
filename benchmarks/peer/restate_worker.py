"""The service that Restate calls, over HTTP/2: ``python -m benchmarks.peer.restate_worker``."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
from typing import Any, Final

from ascertain.adapters.wire import Wire
from benchmarks.call import call
from benchmarks.peer.restate import HANDLER, SERVICE
from benchmarks.peer.worker import OUTSIDE, PORT
from benchmarks.ready import say_ready

# As the SDK's page on serving sets them: the server keeps one connection and many streams on it.
_UNLIMITED: Final = 2**31 - 1


def _application(wire: Wire, outside: str) -> Any:  # noqa: ANN401  # of a package that types do not see
    package: Any = importlib.import_module("restate")
    service = package.Service(SERVICE)

    # ``Any`` for its context: it evaluates the types of handlers where they are written.
    async def create(context: Any, reference: str) -> str:  # noqa: ANN401
        async def once() -> str:
            return await call(wire, outside, reference)

        external_id: str = await context.run_typed("create", once)
        return external_id

    service.handler(name=HANDLER)(create)
    return package.app(services=[service])


async def main() -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server: Any = importlib.import_module("hypercorn.asyncio")
    settings = importlib.import_module("hypercorn").Config()
    settings.bind = [f"127.0.0.1:{os.environ[PORT]}"]
    settings.h2_max_concurrent_streams = _UNLIMITED
    settings.keep_alive_max_requests = _UNLIMITED
    settings.keep_alive_timeout = _UNLIMITED
    wire = Wire()
    application = _application(wire, os.environ[OUTSIDE])
    say_ready("restate")
    await server.serve(application, settings, shutdown_trigger=stop.wait)
    await wire.aclose()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    asyncio.run(main())
