"""The outbox relay: starts the tasks that a service's commits ask for, each once, whoever is killed when.

A relay follows no position in the table. It takes what waits, for a time, starts it, and says so; what a
killed relay had in hand is free again when its time is over, and starting a task a second time is finding
it started.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from opentelemetry import context, propagate
from opentelemetry.metrics import Observation
from pydantic import JsonValue, TypeAdapter, ValidationError

from ascertain import metric
from ascertain.errors import AscertainError, InputError, InvalidTask, Unavailable
from ascertain.outbox import TRACE
from ascertain.service.queue import POISON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ascertain.client import Client
    from ascertain.metric import Metric
    from ascertain.service.queue import Entry, Lag, Queue

log = logging.getLogger("ascertain.relay")

_OBJECT: Final = TypeAdapter(dict[str, JsonValue])
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_MEASURE_EVERY_S: Final = 5.0
_STARTED: Final = {"fate": "started"}
_DUPLICATE: Final = {"fate": "duplicate"}
_SET_ASIDE: Final = {"fate": "set_aside"}


@dataclass(frozen=True, slots=True)
class Pace:
    """How a relay works.

    Attributes:
        batch: Most entries taken at once.
        concurrency: Most starts at a time.
        lease: How long an entry is ours before another relay may take it; longer than a batch takes.
        poll: How often to look without being told; a commit is told at once.
        keep: How long entries stay after their tasks were started.
    """

    batch: int = 100
    concurrency: int = 32
    lease: timedelta = timedelta(seconds=30)
    poll: timedelta = timedelta(seconds=1)
    keep: timedelta = timedelta(days=7)


@dataclass
class Tally:
    """What became of the entries that a relay had in hand."""

    started: int = 0
    duplicate: int = 0
    set_aside: int = 0


@dataclass
class Relay:
    """One relay of an outbox. Several at once share the work."""

    queue: Queue
    client: Client
    pace: Pace = Pace()
    tally: Tally = field(default_factory=Tally)
    _lag: Lag | None = None
    _told: asyncio.Event = field(default_factory=asyncio.Event)
    _pause_s: float = _FIRST_PAUSE_S

    async def run(self, stop: asyncio.Event) -> None:
        """Relay until told to stop; what is in hand then is finished. No outage ends it."""
        ending = asyncio.create_task(stop.wait())
        ending.add_done_callback(lambda _: self._told.set())
        measuring = asyncio.create_task(self._measure())
        try:
            while not stop.is_set():
                try:
                    await self._listen(stop)
                except Unavailable as error:
                    await self._slow_down(error, stop)
        finally:
            ending.cancel()
            measuring.cancel()

    def show(self) -> None:
        """Have its metrics shown by this process."""
        for fate in (_STARTED, _DUPLICATE, _SET_ASIDE):
            metric.outbox_entries.add(0, fate)  # so that the first one is a rise from nothing
        metric.outbox_taken_again.add(0)
        metric.observe(metric.OUTBOX_UP, lambda: [Observation(self._lag is not None)])
        self._show(metric.OUTBOX_LAG, lambda lag: lag.lag.total_seconds())
        self._show(metric.OUTBOX_WAITING, lambda lag: lag.waiting)
        self._show(metric.OUTBOX_SET_ASIDE, lambda lag: lag.set_aside)

    def _show(self, shown: Metric, value: Callable[[Lag], float]) -> None:
        def observed() -> Iterable[Observation]:
            return [] if self._lag is None else [Observation(value(self._lag))]

        metric.observe(shown, observed)

    async def _listen(self, stop: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.queue.told(self._told.set))
            while not stop.is_set():
                self._told.clear()
                await self.drain(stop)
                self._pause_s = _FIRST_PAUSE_S
                await self.queue.prune(self.pace.keep)
                await _wait(self._told, self.pace.poll.total_seconds())

    async def drain(self, stop: asyncio.Event | None = None) -> None:
        """Start everything that waits now.

        Raises:
            Unavailable: The outbox or Temporal does not answer; nothing is lost by trying again.
        """
        while stop is None or not stop.is_set():
            taken = await self.queue.take(self.pace.batch, self.pace.lease)
            if not taken:
                return
            await self._start_all(taken)

    async def _start_all(self, taken: Sequence[Entry]) -> None:
        metric.outbox_taken_again.add(sum(entry.takes > 1 for entry in taken))
        batch = _Batch(self, asyncio.Semaphore(self.pace.concurrency))
        async with asyncio.TaskGroup() as group:
            for entry in taken:
                group.create_task(batch.start(entry))
        await self.queue.started(batch.runs)
        self.tally.started += len(batch.runs) - batch.duplicates
        self.tally.duplicate += batch.duplicates
        metric.outbox_entries.add(len(batch.runs) - batch.duplicates, _STARTED)
        metric.outbox_entries.add(batch.duplicates, _DUPLICATE)
        if batch.outage is not None:
            await self.queue.give_back(batch.unanswered)
            raise batch.outage

    async def _measure(self) -> None:
        """How far behind, again and again: most of all while nothing can be started."""
        while True:
            try:
                self._lag = await self.queue.lag()
            except Unavailable:
                self._lag = None
            await asyncio.sleep(_MEASURE_EVERY_S)

    async def _slow_down(self, error: Unavailable, stop: asyncio.Event) -> None:
        log.warning("%s; next try in %.1f s", error, self._pause_s)
        await _wait(stop, self._pause_s)
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)


@dataclass
class _Batch:
    """Entries in hand, and what became of them."""

    relay: Relay
    slots: asyncio.Semaphore
    runs: dict[int, str] = field(default_factory=dict[int, str])
    duplicates: int = 0
    unanswered: list[int] = field(default_factory=list[int])
    outage: Unavailable | None = None

    async def start(self, entry: Entry) -> None:
        """Start one, unless an outage has shown meanwhile."""
        async with self.slots:
            if self.outage is not None:
                self.unanswered.append(entry.entry_id)
                return
            try:
                await self._judge(entry)
            except Unavailable as error:
                self.outage = error
                self.unanswered.append(entry.entry_id)

    async def _judge(self, entry: Entry) -> None:
        if entry.takes > POISON:
            ended = f"its relay ended {entry.takes - 1} times with it in hand"
            await self._set_aside(entry, ended)
        else:
            await self._try(entry)

    async def _try(self, entry: Entry) -> None:
        carried = context.attach(propagate.extract({TRACE: entry.traceparent or ""}))
        try:
            submitted = await self.relay.client.submit(_task(entry))
        except InputError as error:
            await self._set_aside(entry, str(error))
        except Unavailable:
            raise
        except AscertainError as error:
            # Not the entry's doing. It is taken again after its lease, and set aside if that goes on.
            log.error("entry %d (task %s): %s", entry.entry_id, entry.task_id, error)  # noqa: TRY400 - the sentence says it all
        else:
            self.runs[entry.entry_id] = submitted.run_id
            self.duplicates += submitted.duplicate
        finally:
            context.detach(carried)

    async def _set_aside(self, entry: Entry, reason: str) -> None:
        log.error("entry %d (task %s) is set aside: %s", entry.entry_id, entry.task_id, reason)
        await self.relay.queue.set_aside(entry.entry_id, reason)
        self.relay.tally.set_aside += 1
        metric.outbox_entries.add(1, _SET_ASIDE)


def _task(entry: Entry) -> dict[str, JsonValue]:
    """The task as it was put, whoever put it there.

    Raises:
        InvalidTask: It is no JSON object.
    """
    try:
        return _OBJECT.validate_json(entry.content)
    except ValidationError as error:
        raise InvalidTask(
            f"entry {entry.entry_id} holds no JSON object that can be read"
        ) from error


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
