"""The process with the adapter: it does what the kit says, as a worker would, and may be killed.

What it is told and what it says goes over its first standard input and output.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from pydantic import TypeAdapter

from ascertain.contracts import finding, outcome
from ascertain.errors import MissingSecret, PermitLost
from ascertain.kind import build_kind
from ascertain.ports import FROZEN_MAX_BYTES, Call, Lister
from ascertain.testing.conformance.message import (
    Held,
    Opened,
    Opening,
    Order,
    Reply,
    Sent,
    read,
    written,
)
from ascertain.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

    from ascertain.ports import Adapter, BatchAdapter, Kind

HELD_UP: Final = timedelta(seconds=1)
# An attempt may go on for so long beyond what is declared, so that it is seen to.
OVER_S: Final = 2.0
_KIB: Final = 1024
_PEAK: Final = re.compile(r"VmHWM:\s+(\d+) kB")
_TEXT: Final = 500
_OUTCOMES: Final = TypeAdapter[outcome.Outcome](outcome.Outcome)
_FINDINGS: Final = TypeAdapter[finding.Finding](finding.Finding)


@dataclass
class SeatPermit:
    """A permit for one call, as a worker's is.

    Attributes:
        checks: How often it was checked.
    """

    lost: bool
    checks: int = 0

    def check(self) -> None:
        """Use it up."""
        self.checks += 1
        if self.lost or self.checks > 1:
            raise PermitLost("the conformance kit gives one permit for one call")

    async def renew(self) -> None:
        """Lengthen it."""
        if self.lost:
            raise PermitLost("the conformance kit refused this permit")

    def heartbeat(self, progress: JsonValue) -> None:
        """Nobody listens."""
        del progress


@dataclass(frozen=True)
class GivenSecrets:
    """The trial's secrets."""

    values: Mapping[str, str]

    def reveal(self, name: str) -> str:
        """The secret's value."""
        if name not in self.values:
            raise MissingSecret(f"secret {name} is missing: the trial's `secrets` do not have it")
        return self.values[name]


class Line:
    """Writes whole messages, in the watching thread too while the loop is held up."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def say(self, message: Reply | Held) -> None:
        """Send one message."""
        with self._lock:
            self._out.write(written(message))
            self._out.flush()


async def serve(orders: BinaryIO, line: Line) -> None:
    """Open the adapter, then do what is said until nobody says anything more."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), orders)
    first = await read(reader)
    if first is None:
        return
    opening = Opening.model_validate_json(first)
    try:
        kind = build_kind(opening.kind, opening.chosen, GivenSecrets(opening.secrets))
    except Exception as error:  # noqa: BLE001 - told to the person who tries it
        line.say(Reply(id=0, raised=type(error).__name__, text=str(error)))
        return
    line.say(Reply(id=0, opened=_opened(kind)))
    tasks: set[asyncio.Task[None]] = set()
    with Watch(HELD_UP, lambda held: line.say(Held(for_s=held.for_s, where=held.where))):
        while (said := await read(reader)) is not None:
            task = asyncio.create_task(_obey(kind, Order.model_validate_json(said), line))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


def _opened(kind: Kind) -> Opened:
    adapter = kind.adapter
    batch_max: int = getattr(adapter, "batch_max", 1)
    return Opened(semantics=kind.semantics, batch_max=batch_max, lists=isinstance(adapter, Lister))


async def _obey(kind: Kind, order: Order, line: Line) -> None:
    last = len(order.sent) - 1
    permits = [SeatPermit(order.lost and number == last) for number in range(last + 1)]
    _forget_most_bytes()
    before, began = _most_bytes(), time.monotonic()
    try:
        reply = await _done(kind, order, permits)
    except BaseException as error:  # noqa: BLE001 - whatever an adapter raises is its answer
        reply = Reply(id=order.id, raised=type(error).__qualname__, text=str(error)[:_TEXT])
    seen = {
        "checks": tuple(permit.checks for permit in permits),
        "took_s": time.monotonic() - began,
        "grown_bytes": _most_bytes() - before,
    }
    line.say(reply.model_copy(update=seen))


async def _done(kind: Kind, order: Order, permits: Sequence[SeatPermit]) -> Reply:
    adapter = kind.adapter
    if adapter is None:
        raise AssertionError("a kind is built with its adapter")
    calls = [_call(sent, order.attempt) for sent in order.sent]
    longest_s = kind.semantics.max_duration.total_seconds() + OVER_S
    within = timedelta(seconds=order.within_s)
    match order.do:
        case "prepare":
            return _prepared(adapter, order)
        case "perform":
            async with asyncio.timeout(longest_s):
                came_to = await adapter.perform(calls[0], permits[0])
            return Reply(id=order.id, outcome=_OUTCOMES.validate_python(came_to))
        case "perform_many":
            async with asyncio.timeout(longest_s):
                all_of_them = await cast("BatchAdapter", adapter).perform_many(calls, permits)
            outcomes = tuple(map(_OUTCOMES.validate_python, all_of_them))
            return Reply(id=order.id, outcomes=outcomes)
        case "lookup":
            async with asyncio.timeout(order.within_s + 1):
                found = await adapter.lookup(calls[0], within=within)
            return Reply(id=order.id, finding=_FINDINGS.validate_python(found))
        case "listing":
            async with asyncio.timeout(order.within_s + 1):
                pages = cast("Lister", adapter).listing(since=order.since, within=within)
                listed = tuple([each async for page in pages for each in page])
            return Reply(id=order.id, listed=listed)


def _prepared(adapter: Adapter, order: Order) -> Reply:
    frozen: object = adapter.prepare(order.sent[0].effect)
    if not isinstance(frozen, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - theirs
        raise TypeError(f"prepare gave {type(frozen).__qualname__}, not bytes")
    if len(frozen) > FROZEN_MAX_BYTES:
        raise ValueError(f"prepare gave {len(frozen)} bytes; at most {FROZEN_MAX_BYTES} are kept")
    return Reply(id=order.id, frozen=base64.b64encode(frozen).decode())


def _call(sent: Sent, attempt: int) -> Call:
    return Call(sent.effect, base64.b64decode(sent.frozen), attempt, job_id=sent.job_id)


def _most_bytes() -> int:
    """The most memory that this process has had; 0 where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    found = _PEAK.search(status)
    return int(found[1]) * _KIB if found else 0


def _forget_most_bytes() -> None:
    """Let the most memory be what there is now."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    """Serve the kit on what was standard input and output; the adapter gets others."""
    orders, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    asyncio.run(serve(orders, Line(replies)))


if __name__ == "__main__":
    main()
