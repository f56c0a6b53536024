"""Restate: a server of its own keeps a journal of each invocation and calls the service that does the work.

The server is one program, which ``./run bench --peers`` takes from npm; the service is a process of its own,
as Restate has it. The server's settings are as they come, but for addresses and telemetry.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Final

import httpx
from typing_extensions import override

from ascertain.adapters.wire import Wire
from benchmarks.call import CallFailed
from benchmarks.cpu import Part, Process
from benchmarks.peer.presence import RESTATE_SERVER, program
from benchmarks.peer.worker import OUTSIDE, PORT, start
from benchmarks.plan import Contender
from benchmarks.side import Side, one_by_one
from starter.process import free_port
from starter.server import Server
from starter.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

SERVICE: Final = "Facts"
HANDLER: Final = "create"
_ASK_WITHIN: Final = timedelta(seconds=5)
_WITHIN: Final = timedelta(seconds=60)
_OK: Final = 200
_CREATED: Final = 201
_SETTINGS: Final = """
bind-address = "127.0.0.1:{node}"
listen-mode = "tcp" # a socket in a deep folder would break the limit on its path
disable-telemetry = true

[ingress]
bind-address = "127.0.0.1:{ingress}"

[admin]
bind-address = "127.0.0.1:{admin}"
"""


class RestateServer(Server):
    """Its one program on 127.0.0.1, with its data in its directory."""

    name: ClassVar[str] = "Restate"

    def __init__(self, directory: Path, wire: Wire) -> None:
        """Describe the server; nothing is started or written yet.

        Args:
            directory: Its data, settings, log and lock.
            wire: Asks whether it is healthy.
        """
        super().__init__(directory, port=free_port())
        self._admin_port = free_port()
        self._wire = wire

    @property
    def ingress(self) -> str:
        """Where invocations come in, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def admin(self) -> str:
        """Where services are registered, without a slash at the end."""
        return f"http://127.0.0.1:{self._admin_port}"

    @property
    def _file(self) -> Path:
        return self.directory / "restate.toml"

    @override
    async def _prepare(self, lock: int) -> None:
        ports = {"node": free_port(), "ingress": self.port, "admin": self._admin_port}
        self._file.write_text(_SETTINGS.format(**ports), "utf-8")

    @override
    def _command(self) -> Sequence[str]:
        return (program(RESTATE_SERVER), "--no-logo", "--config-file", str(self._file))

    @override
    async def _ready(self) -> bool:
        paths = (f"{self.ingress}/restate/health", f"{self.admin}/health")
        asked = [await self._status(path) for path in paths]
        return asked == [_OK, _OK]

    async def _status(self, url: str) -> int | None:
        exchange = await self._wire.exchange(httpx.Request("GET", url), within=_ASK_WITHIN)
        return exchange.status

    async def register(self, uri: str) -> None:
        """Have it ask the service there what it offers, and call it from now on.

        Raises:
            SetupError: It does not take it.
        """

        async def taken() -> bool:
            request = httpx.Request("POST", f"{self.admin}/deployments", json={"uri": uri})
            exchange = await self._wire.exchange(request, within=_WITHIN)
            return exchange.status == _CREATED

        await until(taken, _WITHIN, f"Restate did not take the service at {uri}")


@asynccontextmanager
async def invoked(
    folder: Path, wire: Wire, outside: str, processes: Mapping[Part, Process]
) -> AsyncGenerator[Side]:
    """Run its server and the service, and invoke the service for each task.

    Args:
        folder: Of the run.
        wire: Carries the invocations.
        outside: The address of the outside.
        processes: Of the client and the outside.
    """
    port = free_port()
    environment = {OUTSIDE: outside, PORT: str(port)}
    server = RestateServer(folder / "restate", wire)
    async with server, start("restate", folder, environment) as work:
        await server.register(f"http://127.0.0.1:{port}")

        async def do(task_id: str) -> None:
            request = httpx.Request(
                "POST",
                f"{server.ingress}/{SERVICE}/{HANDLER}",
                headers={"Idempotency-Key": task_id, "Content-Type": "application/json"},
                content=json.dumps(task_id),
            )
            exchange = await wire.exchange(request, within=_WITHIN)
            if exchange.json() != f"fact-{task_id}":
                raise CallFailed(f"{task_id}: {exchange.status} {exchange.detail}")

        processes = {
            **processes,
            Part.WORKER: work.process,
            Part.SERVER: Process(server.pid),
        }
        yield Side(Contender.RESTATE, one_by_one(do), processes)
