"""A receiver of OTLP over HTTP, as a collector has it."""

from __future__ import annotations

import gzip
from typing import Self

from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Keeps what is sent to it.

    Attributes:
        received: The bytes of all that came, decompressed.
    """

    def __init__(self) -> None:
        self.spans: list[tuple[str, Span]] = []
        self.metrics: set[str] = set()
        self.headers: list[str | None] = []
        self.received = b""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/v1/traces", self._take)
        app.router.add_post("/v1/metrics", self._measure)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._runner.cleanup()

    async def _measure(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        for sent in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            self.metrics |= {
                metric.name for scope in sent.scope_metrics for metric in scope.metrics
            }
        return web.Response()

    async def _take(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        self.headers.append(request.headers.get("x-team"))
        for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {pair.key: pair.value.string_value for pair in sent.resource.attributes}
            for scope in sent.scope_spans:
                self.spans += [(names["service.name"], span) for span in scope.spans]
        return web.Response()

    async def _body(self, request: web.Request) -> bytes:
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.received += body
        return body

    def of(self, trace_id: str) -> dict[str, set[str]]:
        """The names of a trace's spans, by the service that sent them."""
        found: dict[str, set[str]] = {}
        for service, span in self.spans:
            if span.trace_id.hex() == trace_id:
                found.setdefault(service, set()).add(span.name)
        return found
