"""Answers that are lost, false or odd: only proof settles, and only proof denies."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from ascertain.contracts.outcome import NotDone
from ascertain.testing.conformance.bench import Bench
from ascertain.testing.conformance.check import Check
from ascertain.testing.conformance.reply import error, false_successes, odd_successes
from ascertain.testing.conformance.seen import Attempted
from ascertain.testing.conformance.verdict import NotTried, expect
from ascertain.testing.fault import CutReply, DropReply, Fault, Substitute

_GATEWAY: Final = (408, 499, 500, 502, 503, 504)
_LONGEST_WAIT: Final = timedelta(hours=1)
_SILENCE_AT_MOST: Final = timedelta(seconds=6)
_GROWS_AT_MOST: Final = 16 << 20
_RETRY_AFTER: Final = ("-5", "999999", "soon")


async def lost_answer(bench: Bench) -> None:
    """The outside has done it, and its answer does not arrive."""
    bench.needs_making_request()
    faults: dict[str, Fault] = {
        "before any byte (reset)": DropReply("reset"),
        "before any byte (closed)": DropReply("close"),
    }
    if bench.http:
        faults["in its first line"] = CutReply(keep_bytes=10)
        faults["before its last byte"] = CutReply(keep_bytes=-1)
    for where, fault in faults.items():
        attempted = await done_behind(bench, fault)
        seen = f"an answer that is lost {where} came to {attempted.told}"
        expect(attempted.doubted, f"{seen}, and the outside has done it: only doubt is true")


async def silence(bench: Bench) -> None:
    """The outside has done it and says nothing."""
    bench.needs_making_request()
    if bench.declared.max_duration > _SILENCE_AT_MOST:
        raise NotTried("max_duration is too long to be waited for; give the trial a short timeout")
    attempted = await done_behind(bench, DropReply("silence"))
    bench.seen.silence_s = attempted.reply.took_s
    expect(attempted.doubted, f"silence came to {attempted.told}; only doubt is true")


async def gateway(bench: Bench) -> None:
    """Somebody between us and the outside gives up."""
    bench.over_http()
    for status in _GATEWAY:
        if status in bench.trial.refuses:
            continue
        attempted = await done_behind(bench, Substitute(error(status)))
        seen = f"a gateway's {status} came to {attempted.told}"
        expect(attempted.doubted, f"{seen}, and the outside has done it: only doubt is true")


async def bare_success(bench: Bench) -> None:
    """A status of success, and nothing was done."""
    bench.over_http()
    if bench.trial.proof == "status":
        raise NotTried("the outside proves a fact by its status alone (`proof`)")
    for what, raw in false_successes().items():
        attempted = await _attempted(bench, Substitute(raw, forwarded=False))
        expect(attempted.doubted, f"200 with {what} came to {attempted.told}; it proves nothing")


async def odd_answer(bench: Bench) -> None:
    """Success that cannot be read, or is too much to be read."""
    bench.over_http()
    for what, raw in odd_successes().items():
        attempted = await done_behind(bench, Substitute(raw))
        wrong = attempted.said in {"not_done", "refused"}
        expect(not wrong, f"200 with {what} came to {attempted.told}, and the outside has done it")
        grown = attempted.reply.grown_bytes
        expect(grown < _GROWS_AT_MOST, f"200 with {what} was read whole: {grown >> 20} MiB more")


async def throttle(bench: Bench) -> None:
    """The outside asks to wait, in ways that outsides do."""
    bench.over_http()
    for value in _RETRY_AFTER:
        fault = Substitute(error(429, {"Retry-After": value}), forwarded=False)
        attempted = await _attempted(bench, fault)
        settled = attempted.said in {"settled", "accepted"}
        expect(not settled, f"429 came to {attempted.told}")
        wait = attempted.outcome.retry_after if isinstance(attempted.outcome, NotDone) else None
        clipped = wait is None or timedelta(0) < wait <= _LONGEST_WAIT
        expect(clipped, f"Retry-After: {value} was taken as a wait of {wait}; clip it")


async def _attempted(bench: Bench, fault: Fault) -> Attempted:
    sent = await bench.fresh()
    with bench.fault(fault):
        return await bench.perform(sent)


async def done_behind(bench: Bench, fault: Fault) -> Attempted:
    """An attempt whose answer meets the fault; the outside's books show that it was done."""
    sent = await bench.fresh()
    with bench.fault(fault):
        attempted = await bench.perform(sent)
    if bench.trial.facts is not None:
        there = await bench.facts(sent.id, at_least=1)
        expect(there <= 1, f"one attempt whose answer was lost made {there} facts")
    return attempted


CHECKS: Final = (
    Check("lost_answer", "a lost answer is doubt, in whatever phase it is lost", lost_answer),
    Check("silence", "silence is doubt", silence),
    Check("gateway", "a gateway's answer says nothing of the work behind it", gateway),
    Check("bare_success", "a status of success without its proof settles nothing", bare_success),
    Check("odd_answer", "answers that are too large or cannot be read are contained", odd_answer),
    Check("throttle", "a wait that the outside asks for is clipped", throttle),
)
