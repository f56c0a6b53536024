from __future__ import annotations

import asyncio
import json

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from ascertain import telemetry
from tests.cli.conftest import PROGRAM
from tests.collector import Collector
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
