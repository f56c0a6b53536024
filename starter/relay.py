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

from opentelemetry import context, metrics, propagate
from pydantic import JsonValue, TypeAdapter, ValidationError

from ascertain.errors import AscertainError, InputError, InvalidTask, Unavailable
from ascertain.outbox import TRACE
from ascertain.service.queue import POISON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascertain.client import Client
    from ascertain.service.queue import Entry, Queue

log = logging.getLogger("ascertain.relay")

_OBJECT: Final = TypeAdapter(dict[str, JsonValue])
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_meter: Final = metrics.get_meter("ascertain")
_lag: Final = _meter.create_gauge(
    "ascertain_outbox_lag_seconds", "s", "Age of the oldest entry that waits"
)
_waiting: Final = _meter.create_gauge("ascertain_outbox_waiting", "1", "Entries that wait")
_aside: Final = _meter.create_gauge("ascertain_outbox_set_aside", "1", "Entries that need a person")
_done: Final = _meter.create_counter(
    "ascertain_outbox_entries", "1", "Entries by what became of them"
)


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
    _told: asyncio.Event = field(default_factory=asyncio.Event)
    _pause_s: float = _FIRST_PAUSE_S

    async def run(self, stop: asyncio.Event) -> None:
        """Relay until told to stop; what is in hand then is finished. No outage ends it."""
        ending = asyncio.create_task(stop.wait())
        ending.add_done_callback(lambda _: self._told.set())
        try:
            while not stop.is_set():
                try:
                    await self._listen(stop)
                except Unavailable as error:
                    await self._slow_down(error, stop)
        finally:
            ending.cancel()

    async def _listen(self, stop: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.queue.told(self._told.set))
            while not stop.is_set():
                self._told.clear()
                await self.drain(stop)
                self._pause_s = _FIRST_PAUSE_S
                await self._measure()
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
        batch = _Batch(self, asyncio.Semaphore(self.pace.concurrency))
        async with asyncio.TaskGroup() as group:
            for entry in taken:
                group.create_task(batch.start(entry))
        await self.queue.started(batch.runs)
        self.tally.started += len(batch.runs) - batch.duplicates
        self.tally.duplicate += batch.duplicates
        _done.add(len(batch.runs), {"fate": "started"})
        if batch.outage is not None:
            await self.queue.give_back(batch.unanswered)
            raise batch.outage

    async def _measure(self) -> None:
        lag = await self.queue.lag()
        _lag.set(lag.lag.total_seconds())
        _waiting.set(lag.waiting)
        _aside.set(lag.set_aside)

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
        _done.add(1, {"fate": "set_aside"})


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
