"""What one process tells whoever watches it, over HTTP: its metrics, and whether it lives and is ready.

``/metrics`` is Prometheus's text; ``/live`` answers while the process works at all; ``/ready`` answers 200
between its start and the beginning of its drain, else 503. None of them asks the ledger or Temporal anything:
a process is not restarted because something else is down.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ascertain.errors import InvalidSettings

if TYPE_CHECKING:
    from types import TracebackType

_MOST_PORT: Final = 65_535


def split(address: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``; an IPv6 host stands in brackets.

    Raises:
        InvalidSettings: It is no such address.
    """
    host, colon, port = address.rpartition(":")
    number = int(port) if port.isascii() and port.isdecimal() else 0
    if not (colon and host.strip("[]") and 1 <= number <= _MOST_PORT):
        raise InvalidSettings(f"{address!r} is no address such as 127.0.0.1:9464")
    return host.strip("[]"), number


class Exposition:
    """The endpoint of one process, while it is entered.

    Attributes:
        ready: What ``/ready`` answers.
        registry: What ``/metrics`` shows.
    """

    def __init__(self, address: str, option: str = "--metrics") -> None:
        """Prepare it.

        Args:
            address: Where it listens.
            option: Of the command, that names another one.

        Raises:
            InvalidSettings: The address cannot be read.
        """
        self.ready = False
        self.registry = CollectorRegistry()
        self._address = address
        self._option = option
        self._host, self._port = split(address)
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/live", self._live)
        app.router.add_get("/ready", self._ready)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            why = error.strerror or str(error)
            raise InvalidSettings(
                f"metrics cannot be served at {self._address}: {why}; choose another address with "
                f"{self._option}"
            ) from error
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _at: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        text = await asyncio.to_thread(generate_latest, self.registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _live(self, _: web.Request) -> web.Response:
        return web.Response(text="live\n")

    async def _ready(self, _: web.Request) -> web.Response:
        if self.ready:
            return web.Response(text="ready\n")
        return web.Response(status=503, text="not ready: it is starting or draining\n")
