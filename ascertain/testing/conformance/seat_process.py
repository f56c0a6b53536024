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
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from pydantic import TypeAdapter

from ascertain.contracts import finding, outcome
from ascertain.errors import MissingSecret, PermitLost
from ascertain.kind import build_kind
from ascertain.ports import FROZEN_MAX_BYTES, Call
from ascertain.testing.conformance.message import Held, Opening, Order, Reply, read, written
from ascertain.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from ascertain.ports import Adapter, Kind

HELD_UP: Final = timedelta(seconds=1)
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
    line.say(Reply(id=0, semantics=kind.semantics))
    tasks: set[asyncio.Task[None]] = set()
    with Watch(HELD_UP, lambda held: line.say(Held(for_s=held.for_s, where=held.where))):
        while (said := await read(reader)) is not None:
            task = asyncio.create_task(_obey(kind, Order.model_validate_json(said), line))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


async def _obey(kind: Kind, order: Order, line: Line) -> None:
    permit = SeatPermit(order.lost)
    _forget_most_bytes()
    before = _most_bytes()
    try:
        reply = await _done(kind, order, permit)
    except TimeoutError:
        reply = Reply(id=order.id, raised="TimeoutError", timed_out=True)
    except BaseException as error:  # noqa: BLE001 - whatever an adapter raises is its answer
        reply = Reply(id=order.id, raised=type(error).__qualname__, text=str(error)[:_TEXT])
    grown = _most_bytes() - before
    line.say(reply.model_copy(update={"checks": permit.checks, "grown_bytes": grown}))


async def _done(kind: Kind, order: Order, permit: SeatPermit) -> Reply:
    adapter = kind.adapter
    if adapter is None:
        raise AssertionError("a kind is built with its adapter")
    match order.do:
        case "prepare":
            return _prepared(adapter, order)
        case "perform":
            async with asyncio.timeout(kind.semantics.max_duration.total_seconds()):
                came_to = await adapter.perform(_call(order), permit)
            return Reply(id=order.id, outcome=_OUTCOMES.validate_python(came_to))
        case "lookup":
            within = timedelta(seconds=order.within_s)
            async with asyncio.timeout(order.within_s + 1):
                found = await adapter.lookup(_call(order), within=within)
            return Reply(id=order.id, finding=_FINDINGS.validate_python(found))


def _prepared(adapter: Adapter, order: Order) -> Reply:
    frozen: object = adapter.prepare(order.effect)
    if not isinstance(frozen, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - theirs
        raise TypeError(f"prepare gave {type(frozen).__qualname__}, not bytes")
    if len(frozen) > FROZEN_MAX_BYTES:
        raise ValueError(f"prepare gave {len(frozen)} bytes; at most {FROZEN_MAX_BYTES} are kept")
    return Reply(id=order.id, frozen=base64.b64encode(frozen).decode())


def _call(order: Order) -> Call:
    frozen = base64.b64decode(order.frozen)
    return Call(order.effect, frozen, order.attempt, job_id=order.job_id)


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
