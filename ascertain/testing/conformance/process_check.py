"""The adapter's process: killed at the worst moment, flooded, held up, ended."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from ascertain.testing.conformance.bench import Bench
from ascertain.testing.conformance.check import Check
from ascertain.testing.conformance.message import Sent
from ascertain.testing.conformance.seat import Ended
from ascertain.testing.conformance.verdict import NotTried, expect
from ascertain.testing.fault import DropReply, OnReply, Pass

if TYPE_CHECKING:
    from ascertain.testing.conformance.seen import Attempted
    from ascertain.testing.fault import ReplyFault

_FLOOD: Final = 8
_HOLD_S: Final = 2.0
_POLL_S: Final = 0.02


async def killed(bench: Bench) -> None:
    """SIGKILL when the outside has done it and nobody knows; then what a new worker does."""
    if bench.declared.pure:
        raise NotTried("nothing outside changes")
    sent = await bench.fresh()
    if bench.proxy is not None:
        await _killed_before_the_answer(bench, sent)
    else:
        await _killed_at_the_fact(bench, sent)
    await bench.seat.start()
    if bench.declared.lookup is not None:
        await _asked_for(bench, sent)
    elif bench.declared.idempotent_for is not None:
        again = await bench.perform(sent, attempt=2)
        denied = again.said in {"refused", "not_done"}
        expect(not denied, f"after a kill the same bytes under the same key came to {again.told}")
    if bench.trial.facts is not None:
        there = await bench.facts(sent.id, at_least=1)
        expect(there == 1, f"after a kill and what a worker does then, there are {there} facts")


async def flood(bench: Bench) -> None:
    """Many effects at once keep apart."""
    sents = [await bench.fresh() for _ in range(_FLOOD)]
    with contextlib.ExitStack() as stack:
        if bench.proxy is not None and (bench.http or bench.trial.makes is not None):
            stack.enter_context(bench.fault(OnReply(_Crowd().joined)))
        attempts = await asyncio.gather(*(bench.perform(sent) for sent in sents))
    wrong = [one.told for one in attempts if one.said in {"refused", "permit_lost"}]
    expect(not wrong, f"of {_FLOOD} effects at once {len(wrong)} came to {wrong[:1]}")
    if bench.trial.facts is not None:
        for sent, attempt in zip(sents, attempts, strict=True):
            await _keeps_apart(bench, sent, attempt)


async def _keeps_apart(bench: Bench, sent: Sent, attempt: Attempted) -> None:
    settled = attempt.said == "settled"
    there = await bench.facts(sent.id, at_least=int(settled))
    expect(there <= 1, f"one of {_FLOOD} effects at once has {there} facts")
    if settled:
        expect(there == 1, f"one of {_FLOOD} effects at once settled without a fact")


class _Crowd:
    """Holds answers back until all are there, once, and not for long."""

    def __init__(self) -> None:
        self._waiting = 0
        self._go_on = asyncio.Event()

    async def joined(self, request: bytes) -> ReplyFault:
        """Wait for the others; then the answer goes its way."""
        del request
        self._waiting += 1
        if self._waiting == _FLOOD:
            self._go_on.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HOLD_S):
                await self._go_on.wait()
        self._go_on.set()
        return Pass()


async def _killed_before_the_answer(bench: Bench, sent: Sent) -> None:
    bench.needs_making_request()
    done = asyncio.Event()

    async def kill(request: bytes) -> ReplyFault:
        del request
        done.set()
        await bench.seat.kill()
        return DropReply("reset")

    with bench.fault(OnReply(kill)), contextlib.suppress(Ended):
        await bench.perform(sent)
    expect(done.is_set(), "the request that makes the fact was not seen")


async def _killed_at_the_fact(bench: Bench, sent: Sent) -> None:
    if bench.trial.facts is None:
        raise NotTried("there are neither a socket nor books to see when it is done")
    performing = asyncio.ensure_future(bench.perform(sent))
    while not performing.done() and not await bench.trial.facts(sent.id):
        await asyncio.wait([performing], timeout=_POLL_S)
    await bench.seat.kill()
    with contextlib.suppress(Ended):
        await performing


async def _asked_for(bench: Bench, sent: Sent) -> None:
    """The lookup finds it, or says that it cannot tell; it never denies it once it is visible."""
    looked = await bench.lookup(sent)
    if looked.said == "unknowable":
        return
    await bench.found(sent)


CHECKS: Final = (
    Check("flood", "many effects at once keep apart", flood),
    Check("killed", "a process killed after the fact leaves one fact, which is found", killed),
)
