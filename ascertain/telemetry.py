"""One trace from a service's submit to the call outside.

Spans are made only where somebody collects or names traces: a tracer provider is installed by the
service itself, or by ``install`` for our own processes. Where they are sent is said by OpenTelemetry's
own variables (``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_SERVICE_NAME``,
``OTEL_RESOURCE_ATTRIBUTES``, ``OTEL_TRACES_SAMPLER``, ``OTEL_TRACES_EXPORTER``, ``OTEL_SDK_DISABLED``);
without an endpoint nothing is sent anywhere.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from temporalio.contrib.opentelemetry import TracingInterceptor

from ascertain.errors import InvalidSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN: Final = "http/protobuf"
_EXPORTER: Final = "OTEL_TRACES_EXPORTER"
_OTLP: Final = "otlp"
_NONE: Final = "none"


def install(service: str = "ascertain") -> None:
    """Give this process a tracer provider unless it has one, so that trace ids exist and travel on.

    Args:
        service: What the process is called, unless ``OTEL_SERVICE_NAME`` says otherwise.

    Raises:
        InvalidSettings: The ``OTEL_`` variables ask for a way of sending that is not there.
    """
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    provider = TracerProvider(resource=_resource(service))
    exporter = _exporter()
    if exporter is not None:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def shutdown() -> None:
    """Send what is still held back, and stop; for the end of a process of ours."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.shutdown()


def interceptor() -> TracingInterceptor:
    """Carries the trace through Temporal: submit, workflow, activity."""
    return TracingInterceptor()


def _resource(service: str) -> Resource:
    named = Resource.create()
    if os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    ):
        return named
    return named.merge(Resource({SERVICE_NAME: service}))


def _exporter() -> SpanExporter | None:
    """The exporter that the environment asks for; None if it asks for none."""
    wanted = os.environ.get(_EXPORTER) or (_OTLP if _first(_ENDPOINTS) else _NONE)
    if wanted == _NONE:
        return None
    if wanted != _OTLP:
        raise InvalidSettings(f"{_EXPORTER}={wanted} is not there; use {_OTLP} or {_NONE}")
    protocol = _first(_PROTOCOLS) or _SPOKEN
    if protocol != _SPOKEN:
        raise InvalidSettings(
            f"traces are sent as {_SPOKEN} only, not as {protocol} (see {_PROTOCOLS[1]})"
        )
    # Costs what a process without a collector need not pay.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )

    return OTLPSpanExporter()


def _first(variables: tuple[str, ...]) -> str | None:
    return next((value for name in variables if (value := os.environ.get(name))), None)
