"""One trace from a service's submit to the call outside, and the metrics of our own processes.

Spans are made only where somebody collects or names traces: a tracer provider is installed by the
service itself, or by ``install`` for our own processes. Where they are sent is said by OpenTelemetry's
own variables (``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_SERVICE_NAME``,
``OTEL_RESOURCE_ATTRIBUTES``, ``OTEL_TRACES_SAMPLER``, ``OTEL_TRACES_EXPORTER``, ``OTEL_METRICS_EXPORTER``,
``OTEL_METRIC_EXPORT_INTERVAL``, ``OTEL_SDK_DISABLED``); without an endpoint nothing is sent anywhere.
Metrics can be fetched instead: see ``ascertain.exposition``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from opentelemetry import metrics, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from temporalio.contrib.opentelemetry import TracingInterceptor

from ascertain.errors import InvalidSettings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_SPOKEN: Final = "http/protobuf"
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
    if _sends("traces"):
        # Costs what a process without a collector need not pay.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def measure(service: str, registry: CollectorRegistry | None = None) -> None:
    """Have this process's metrics sent where the ``OTEL_`` variables say, and kept ready to be fetched.

    Args:
        service: What the process is called, unless ``OTEL_SERVICE_NAME`` says otherwise.
        registry: Where Prometheus's text is made from; None: nobody fetches it.

    Raises:
        InvalidSettings: The ``OTEL_`` variables ask for a way of sending that is not there.
    """
    readers: list[MetricReader] = []
    if registry is not None:
        readers.append(PrometheusMetricReader(scope_info_enabled=False, registry=registry))
    if _sends("metrics"):
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415  # as above
            OTLPMetricExporter,
        )

        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    if readers:
        metrics.set_meter_provider(MeterProvider(readers, _resource(service)))


def shutdown() -> None:
    """Send what is still held back, and stop; for the end of a process of ours."""
    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        if isinstance(provider, TracerProvider | MeterProvider):
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


def _sends(signal: str) -> bool:
    """Whether the environment asks for a signal, ``traces`` or ``metrics``, to be sent."""
    own = f"OTEL_EXPORTER_OTLP_{signal.upper()}"
    exporter = f"OTEL_{signal.upper()}_EXPORTER"
    endpoint = _first(f"{own}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    wanted = os.environ.get(exporter) or (_OTLP if endpoint else _NONE)
    if wanted == _NONE:
        return False
    if wanted != _OTLP:
        raise InvalidSettings(f"{exporter}={wanted} is not there; use {_OTLP} or {_NONE}")
    protocol = _first(f"{own}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL") or _SPOKEN
    if protocol != _SPOKEN:
        raise InvalidSettings(
            f"{signal} are sent as {_SPOKEN} only, not as {protocol} (see OTEL_EXPORTER_OTLP_PROTOCOL)"
        )
    return True


def _first(*variables: str) -> str | None:
    return next((value for name in variables if (value := os.environ.get(name))), None)
