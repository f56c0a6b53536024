"""``ascertain metrics``: what the ledger says of itself, once on paper or from now on for Prometheus."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentelemetry.metrics import Observation

from ascertain import metric, reading, telemetry
from ascertain.cli import output, place
from ascertain.errors import LedgerDown
from ascertain.exposition import Exposition
from ascertain.settings import LEDGER_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ascertain.cli.place import Place
    from ascertain.metric import Metric
    from ascertain.reading import Reading, Sample

SERVICE: Final = "ascertain-metrics"


async def show(config: Path | None, *, as_json: bool) -> None:
    """Read the ledger once and print it.

    Raises:
        LedgerDown: It does not answer.
    """
    async with place.find(config).ledger() as ledger:
        found = reading.samples(await reading.read(ledger, ledger.upkeep, datetime.now(UTC)))
    if as_json:
        output.document({"metrics": [_document(sample) for sample in found]})
    else:
        output.table(("metric", "labels", "value"), [_cells(sample) for sample in found])


async def serve(address: str, every: timedelta, config: Path | None, *, as_json: bool) -> None:
    """Read the ledger so often, and show the last reading, until SIGTERM or Ctrl-C.

    A ledger that does not answer is shown as such, and asked again.

    Raises:
        InvalidSettings: Nothing can listen there, or the deployment is wrong.
        LedgerDown: The development stack that was named does not run.
        WrongSchema: The ledger must be migrated first.
    """
    where, watch, stop = place.find(config), _Watch(), asyncio.Event()
    where.must_run(LedgerDown, LEDGER_VARIABLE)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, telemetry.shutdown)
        exposition = await stack.enter_async_context(Exposition(address, "--listen"))
        telemetry.measure(SERVICE, exposition.registry)
        watch.install()
        exposition.ready = True
        _say_ready(address, every, as_json=as_json)
        while not stop.is_set():
            await watch.follow(where, every, stop)
            await _told_to(stop, every)


class _Watch:
    """The last reading, shown."""

    def __init__(self) -> None:
        self._reading: Reading | None = None

    def install(self) -> None:
        for each in metric.METRICS:
            if each.source is metric.Source.LEDGER:
                metric.observe(each, self._callback(each))

    def _callback(self, shown: Metric) -> Callable[[], Iterable[Observation]]:
        return lambda: (
            Observation(sample.value, dict(sample.labels))
            for sample in reading.samples(self._reading)
            if sample.metric is shown
        )

    async def follow(self, where: Place, every: timedelta, stop: asyncio.Event) -> None:
        """Read again and again until it is time to stop, or the ledger does not answer."""
        with suppress(LedgerDown):
            async with where.ledger() as ledger:
                while True:
                    self._reading = await reading.read(ledger, ledger.upkeep, datetime.now(UTC))
                    if await _told_to(stop, every):
                        return
        self._reading = None


async def _told_to(stop: asyncio.Event, within: timedelta) -> bool:
    """Whether it is time to stop; waits so long for the word."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within.total_seconds()):
            await stop.wait()
    return stop.is_set()


def _say_ready(address: str, every: timedelta, *, as_json: bool) -> None:
    line = (
        f"metrics of the ledger at http://{address}/metrics, read every {every.total_seconds():g} s"
    )
    if as_json:
        output.document({"ready": line})
    else:
        output.line(f"ready: {line}")
    output.flush()


def _document(sample: Sample) -> dict[str, object]:
    return {"name": sample.metric.shown, "labels": dict(sample.labels), "value": sample.value}


def _cells(sample: Sample) -> tuple[str, str, str]:
    labels = ", ".join(f"{name}={value}" for name, value in sample.labels.items())
    return sample.metric.shown, labels, f"{sample.value:g}"
