"""One trace from a service's submit to the call outside.

Spans are made only where somebody collects or names traces: a tracer provider is installed by the
service itself, or by ``install`` for our own processes.
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from temporalio.contrib.opentelemetry import TracingInterceptor


def install() -> None:
    """Give this process a tracer provider unless it has one, so that trace ids exist and travel on."""
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        trace.set_tracer_provider(TracerProvider())


def interceptor() -> TracingInterceptor:
    """Carries the trace through Temporal: submit, workflow, activity."""
    return TracingInterceptor()
