"""A consumer of events with books of its own, which reads them with the libraries of its field."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cloudevents.v1.http import from_http
from standardwebhooks import Webhook

from tests.adapters.raw_server import Peer, raw_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SIGNING = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


@dataclass
class Consumer:
    """What was told, and how it answers.

    Attributes:
        events: As the CloudEvents library reads them, after their signature was verified.
    """

    port: int = 0
    status: int = 200
    secret: str = SIGNING
    events: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of(self, effect_id: str) -> int:
        return sum(event["id"] == effect_id for event in self.events)

    async def serve(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            Webhook(self.secret).verify(request.body.decode(), request.headers)
            self.events.append(from_http(request.headers, request.body))
            self.headers.append(request.headers)
            said = json.dumps({"secret": self.secret}) if self.status != 204 else ""
            await peer.send(
                f"HTTP/1.1 {self.status} Said\r\nContent-Length: {len(said)}\r\n\r\n{said}".encode()
            )


@contextlib.asynccontextmanager
async def consumer() -> AsyncIterator[Consumer]:
    one = Consumer()
    async with raw_server(one.serve) as server:
        one.port = server.port
        yield one
