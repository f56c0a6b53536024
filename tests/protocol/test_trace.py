from __future__ import annotations

import asyncio
import gzip
import json
from typing import Self

import pytest
from aiohttp import web
from opentelemetry import trace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider

from ascertain import telemetry
from tests.cli.conftest import PROGRAM
from tests.protocol.deployment import step


async def test_one_trace_runs_from_the_service_to_the_call_outside_and_stands_in_the_ledger(
    deployments,
):
    telemetry.install()
    assert isinstance(trace.get_tracer_provider(), TracerProvider)
    deployment = await deployments()
    await deployment.worker()
    with trace.get_tracer("service").start_as_current_span("order") as span:
        effect = await deployment.submit("traced", step())
    await deployment.result("traced")
    trace_id = f"{span.get_span_context().trace_id:032x}"
    (submit,) = deployment.outside.books.submits_of(effect)
    assert submit.headers["traceparent"].split("-")[1] == trace_id
    assert (await deployment.row(effect)).trace_id == trace_id


class Collector:
    """A receiver of OTLP over HTTP, as a collector has it."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Span]] = []
        self.metrics: set[str] = set()
        self.headers: list[str | None] = []

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
        for sent in ExportMetricsServiceRequest.FromString(await _body(request)).resource_metrics:
            self.metrics |= {
                metric.name for scope in sent.scope_metrics for metric in scope.metrics
            }
        return web.Response()

    async def _take(self, request: web.Request) -> web.Response:
        body = await _body(request)
        self.headers.append(request.headers.get("x-team"))
        for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {pair.key: pair.value.string_value for pair in sent.resource.attributes}
            for scope in sent.scope_spans:
                self.spans += [(names["service.name"], span) for span in scope.spans]
        return web.Response()

    def of(self, trace_id: str) -> dict[str, set[str]]:
        """The names of a trace's spans, by the service that sent them."""
        found: dict[str, set[str]] = {}
        for service, span in self.spans:
            if span.trace_id.hex() == trace_id:
                found.setdefault(service, set()).add(span.name)
        return found


async def _body(request: web.Request) -> bytes:
    body = await request.read()
    return gzip.decompress(body) if request.headers.get("Content-Encoding") == "gzip" else body


async def test_standard_variables_send_one_trace_from_the_command_to_the_call_outside(
    deployments, monkeypatch, tmp_path
):
    async with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=payments")
        deployment = await deployments()
        worker = await deployment.worker()
        file = tmp_path / "task.json"
        file.write_text(json.dumps(deployment.task("sent", step())))
        submitted = await asyncio.create_subprocess_exec(
            *(PROGRAM, "submit", str(file), "--wait"), env=deployment.variables
        )
        assert await submitted.wait() == 0
        assert await worker.drain() == 0
        row = await deployment.row(deployment.effect("sent"))
        (submit,) = deployment.outside.books.submits_of(row.effect_id)
        found = collector.of(row.trace_id)
        assert "StartWorkflow:Task" in found["ascertain-cli"]
        assert "StartActivity:perform" in found["ascertain-worker"]
        assert "RunActivity:perform" in found["ascertain-worker"]
        assert submit.headers["traceparent"].split("-")[1] == row.trace_id
        last = submit.headers["traceparent"].split("-")[2]
        assert last in {span.span_id.hex() for _, span in collector.spans}
        assert set(collector.headers) == {"payments"}
        assert {"ascertain_claims", "ascertain_outcomes"} <= collector.metrics


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "OTEL_TRACES_EXPORTER=zipkin is not there"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "as http/protobuf only, not as grpc"),
    ],
)
async def test_a_way_of_sending_that_is_not_there_is_refused(variable, value, said):
    answer = await asyncio.create_subprocess_exec(
        *(PROGRAM, "list"),
        env={variable: value, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await answer.communicate()
    assert answer.returncode == 7
    assert said in err.decode()
