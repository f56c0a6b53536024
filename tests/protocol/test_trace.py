from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from ascertain import telemetry
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
