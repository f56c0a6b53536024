"""The Temporal SDK's core in a worker's process: where its log and its metrics go."""

from __future__ import annotations

import logging
from typing import Final

from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

from ascertain.errors import InvalidSettings
from ascertain.exposition import split

# Left alone it writes to standard output, in a shape of its own: there stands only that the worker is ready.
_LOG: Final = LoggingConfig(
    filter=TelemetryFilter(core_level="WARN", other_level="ERROR"),
    forwarding=LogForwardingConfig(
        logger=logging.getLogger("temporalio.core"),
        append_target_to_name=False,
        prepend_target_on_message=False,
    ),
)


def begin(metrics: str | None) -> None:
    """Have this process's core write into its log, and show its own metrics at ``/metrics`` of an address.

    Before the first connection.

    Raises:
        InvalidSettings: The address cannot be read, or nothing can listen there.
    """
    Runtime.set_default(runtime(metrics), error_if_already_set=False)


def runtime(metrics: str | None = None) -> Runtime:
    """A core that writes into this process's log.

    Raises:
        InvalidSettings: As for ``begin``.
    """
    if metrics is None:
        return Runtime(telemetry=TelemetryConfig(logging=_LOG))
    split(metrics)
    # The names are fixed here, for alerts and dashboards are written with them.
    shown = PrometheusConfig(
        bind_address=metrics,
        counters_total_suffix=True,
        unit_suffix=True,
        durations_as_seconds=True,
    )
    try:
        return Runtime(telemetry=TelemetryConfig(logging=_LOG, metrics=shown))
    except (RuntimeError, ValueError) as error:
        raise InvalidSettings(
            f"the Temporal SDK's metrics cannot be served at {metrics}: {error}; choose another address with "
            "--temporal-metrics"
        ) from error
