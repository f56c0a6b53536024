"""One attempt: one request, under its permit, with an outcome that is true."""

from __future__ import annotations

from typing import Final

from ascertain.contracts.outcome import Settled
from ascertain.testing.conformance.bench import Bench
from ascertain.testing.conformance.check import Check
from ascertain.testing.conformance.message import Sent
from ascertain.testing.conformance.reply import error, redirect, reply
from ascertain.testing.conformance.seen import Attempted
from ascertain.testing.conformance.verdict import expect
from ascertain.testing.fault import DropReply, DropRequest, Fault, Substitute

_MOVED: Final = "/moved-by-the-conformance-kit"
_REDIRECTS: Final = (301, 302, 303, 307, 308)


async def settle(bench: Bench) -> None:
    """A plain attempt."""
    before = len(bench.requests)
    sent, attempted = await bench.made()
    if bench.declared.pure:
        await _changes_nothing(bench, sent, attempted)
        return
    if isinstance(attempted.outcome, Settled) and bench.trial.facts is not None:
        there = await bench.facts(sent.id, at_least=1)
        expect(there == 1, f"it settled, and the outside's books have {there} facts of it")
    if bench.proxy is not None:
        used = len(bench.requests) > before
        expect(used, "nothing passed the address that the trial's `kind` was given")


async def _changes_nothing(bench: Bench, sent: Sent, attempted: Attempted) -> None:
    made = sum(map(bench.makes, attempted.requests))
    expect(not made, f"declared pure, and an attempt made {made} requests that make facts")
    if bench.trial.facts is not None:
        there = await bench.facts(sent.id)
        expect(not there, f"declared pure, and an attempt made {there} facts")


async def prepare(bench: Bench) -> None:
    """Freezing."""
    before = len(bench.requests)
    await bench.fresh()
    expect(len(bench.requests) == before, "prepare made a request; it must do no I/O")


async def permit(bench: Bench) -> None:
    """The permit decides."""
    _, attempted = await bench.made()
    checks = sum(attempted.reply.checks)
    expect(checks == 1, f"permit.check() was called {checks} times in one attempt; once is right")
    sent = await bench.fresh()
    refused = await bench.perform(sent, lost=True)
    left = sum(map(bench.makes, refused.requests))
    expect(not left, f"{left} requests left although the permit was refused")
    if bench.trial.facts is not None:
        there = await bench.facts(sent.id)
        expect(not there, f"{there} facts were made although the permit was refused")
    said = refused.said
    right = said in {"permit_lost", "not_done"}
    expect(right, f"a refused permit came to {said}; let PermitLost pass")


async def one_request(bench: Bench) -> None:
    """Nothing is repeated below us."""
    bench.needs_making_request()
    faults: dict[str, Fault | None] = {
        "answered": None,
        "reset": DropReply("reset"),
        "closed": DropReply("close"),
    }
    if bench.http:
        faults["cut before it was read"] = DropRequest("reset")
        for status in (408, 429, 500, 503):
            turned_away = error(status, {"Retry-After": "0"})
            faults[f"answered with {status}"] = Substitute(turned_away, forwarded=False)
    for what, fault in faults.items():
        attempted = await _one(bench, fault)
        made = _counted(bench, attempted)
        expect(made <= 1, f"one attempt whose request is {what} makes {made} requests")


async def redirect_followed(bench: Bench) -> None:
    """Redirects, to a place that is glad to say that all is well."""
    proxy = bench.over_http()
    there = reply(200, b"{}", {"ETag": '"moved"'})
    arrived = proxy.inject(Substitute(there, forwarded=False), match=_MOVED)
    for status in _REDIRECTS:
        attempted = await _one(bench, Substitute(redirect(status, _MOVED), forwarded=False))
        moved = [request for request in attempted.requests if _MOVED.encode() in request]
        seen = f"a redirect ({status}) of a write was followed"
        expect(not any(map(bench.makes, moved)), seen)
        # Where a status is the proof, that of the other place is taken for it by who reads on there.
        settled = attempted.said == "settled" and bench.trial.proof == "answer"
        expect(not settled, f"a redirect ({status}) was taken as settled")
    proxy.withdraw(arrived)


async def unreachable(bench: Bench) -> None:
    """Nobody listens."""
    bench.through()
    sent = await bench.fresh()
    async with bench.unreachable():
        attempted = await bench.perform(sent)
    right = attempted.said in {"not_done", "unknown", "raised"}
    expect(right, f"an outside that refuses connections came to {attempted.told}")


async def lost_request(bench: Bench) -> None:
    """The connection ends before a byte of an answer: whether it was read, nobody knows."""
    bench.over_http()
    for how in ("reset", "close"):
        attempted = await _one(bench, DropRequest(how))
        seen = f"a request whose connection ended without an answer came to {attempted.told}"
        expect(attempted.doubted, f"{seen}; it may have been read, so only doubt is true")


async def _one(bench: Bench, fault: Fault | None) -> Attempted:
    if fault is None:
        return (await bench.made())[1]
    sent = await bench.fresh()
    with bench.fault(fault):
        return await bench.perform(sent)


def _counted(bench: Bench, attempted: Attempted) -> int:
    """Requests of one attempt: all of them over HTTP, else those that make the fact."""
    if bench.http:
        return len(attempted.requests)
    return sum(map(bench.makes, attempted.requests))


CHECKS: Final = (
    Check("prepare", "prepare freezes the bytes and does no I/O", prepare),
    Check("settle", "a plain attempt makes one fact (a pure one none) and says so", settle),
    Check("permit", "the permit is checked once, and nothing leaves without it", permit),
    Check(
        "one_request", "one attempt makes one request; nothing is repeated below us", one_request
    ),
    Check(
        "redirect", "no redirect of a write is followed, or taken for its proof", redirect_followed
    ),
    Check("unreachable", "an outside that is not there settles nothing", unreachable),
    Check("lost_request", "no answer is never taken for 'never left us'", lost_request),
)
