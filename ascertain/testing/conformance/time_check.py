"""Lengths of time: what an attempt takes, and until when a request that was sent takes effect."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ascertain.testing.conformance.answer_check import done_behind
from ascertain.testing.conformance.check import Check
from ascertain.testing.conformance.verdict import NotTried, expect
from ascertain.testing.fault import DropReply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ascertain.testing.conformance.bench import Bench

# A time-out that ends just beyond what is declared may have been kept from the processor.
_SLACK_S: Final = 1.0
_WAIT_AT_MOST_S: Final = 10.0
_POLL_S: Final = 0.05


async def max_duration(bench: Bench) -> None:
    """What attempts took on this trial."""
    declared = bench.declared.max_duration.total_seconds()
    quickest, silent = bench.seen.quickest_s, bench.seen.silence_s
    if quickest is not None:
        seen = f"declared {declared:g} s, and even the quickest attempt took {quickest:.1f} s"
        expect(quickest <= declared, seen)
    if silent is None:
        raise NotTried("no attempt that meets silence could be waited for; the others end in time")
    if silent > declared + _SLACK_S:
        again = await done_behind(bench, DropReply("silence"))
        silent = min(silent, again.reply.took_s)
    seen = (
        f"declared {declared:g} s, and an attempt that met silence was under way for {silent:.1f} s: "
        "give it a shorter time-out, or declare more"
    )
    expect(silent <= declared + _SLACK_S, seen)


async def in_flight(bench: Bench) -> None:
    """When the fact is there whose answer is lost."""
    declared = bench.declared.in_flight_max.total_seconds()
    late = await _late_s(bench)
    if late > declared:
        late = min(late, await _late_s(bench))  # once may be a machine that is busy
    bench.seen.in_flight_s = late
    seen = f"declared {declared:g} s, and a request took effect later than {late:.2f} s after it was sent"
    expect(late <= declared, seen)


async def _late_s(bench: Bench) -> float:
    """How long after a request was sent its fact was still to come, by the outside's books."""
    bench.needs_making_request()
    books, loop = bench.trial.facts, asyncio.get_running_loop()
    if books is None:
        raise NotTried("the outside's books cannot be read (the trial has no `facts`)")
    left: list[float] = []

    def leaves(request: bytes) -> bool:
        if not bench.makes(request):
            return False
        left.append(loop.time())
        return True

    sent = await bench.fresh()
    with bench.fault(DropReply("reset"), on=leaves):
        performing = asyncio.ensure_future(bench.perform(sent))
        while not left and not performing.done():
            await asyncio.wait([performing], timeout=_POLL_S)
        late = await _missing_s(bench, lambda: books(sent.id), left[0] if left else loop.time())
        await performing
    expect(bool(left), "the request that makes the fact was not seen")
    if late is None:
        raise NotTried("a request whose answer was lost had no effect as long as was waited")
    return late


async def _missing_s(
    bench: Bench, count: Callable[[], Awaitable[int]], left_at: float
) -> float | None:
    """When, since it left, the fact was last seen to be missing; None if it never came."""
    loop, late = asyncio.get_running_loop(), 0.0
    longest = min(bench.declared.in_flight_max.total_seconds(), _WAIT_AT_MOST_S)
    while late < longest + bench.trial.patience.total_seconds():
        asked = loop.time() - left_at
        if await count():
            return late
        late = asked
        await asyncio.sleep(_POLL_S)
    return None


CHECKS: Final = (
    Check("max_duration", "an attempt ends within max_duration by itself", max_duration),
    Check("in_flight", "a sent request takes effect within in_flight_max, or never", in_flight),
)
