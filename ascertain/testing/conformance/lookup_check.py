"""The lookup: it finds what is there, in time, and takes nothing else for it."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta
from typing import Final

from ascertain.contracts.finding import Found
from ascertain.contracts.outcome import Settled
from ascertain.testing.conformance.bench import Bench
from ascertain.testing.conformance.check import Check
from ascertain.testing.conformance.message import Sent
from ascertain.testing.conformance.reply import error, success
from ascertain.testing.conformance.seen import Looked
from ascertain.testing.conformance.verdict import Failed, NotTried, expect
from ascertain.testing.fault import CutReply, DropReply, Fault, Substitute

_POLL_S: Final = 0.05
_REPEATS: Final = 3
_SAYS_NOTHING: Final = frozenset({"raised", "unknowable", "pending", "found"})


async def finds(bench: Bench) -> None:
    """A fact that exists is found, and how late."""
    _needs_lookup(bench)
    sent, attempted = await bench.made()
    bench.seen.lookup_finds = False
    found = await _first_found(bench, sent)
    bench.seen.lookup_finds = True
    settled = attempted.outcome
    if isinstance(settled, Settled):
        told, there = settled.receipt.external_id, found.receipt.external_id
        expect(told == there, f"the attempt settled with {told!r}, the lookup finds {there!r}")


async def lag(bench: Bench) -> None:
    """A fact is visible within the declared lag."""
    _needs_lookup(bench)
    if bench.seen.lag_s is None:
        raise NotTried("nothing was found")
    declared = bench.declared.lag
    late = timedelta(seconds=bench.seen.lag_s) > declared
    expect(
        not late,
        f"declared a lag of {declared.total_seconds():g} s, and a fact was not visible "
        f"{bench.seen.lag_s:.2f} s after it was there",
    )


async def absent(bench: Bench) -> None:
    """What was never sent is not there, however often it is asked for, and asking does not make it."""
    _needs_lookup(bench)
    sent = await bench.fresh()
    before = len(bench.requests)
    for _ in range(_REPEATS):
        looked = await bench.lookup(sent)
        right = looked.said in {"absent", "unknowable"}
        expect(right, f"the lookup of what was never sent came to {_told(looked)}")
    if bench.trial.facts is not None:
        expect(not await bench.facts(sent.id), "the lookup made the fact that it was asked for")
    if bench.http:
        made = sum(map(bench.makes, bench.requests[before:]))
        expect(not made, f"the lookup sent {made} requests that make facts")


async def down(bench: Bench) -> None:
    """An outside that cannot be asked says nothing."""
    _needs_lookup(bench)
    bench.through()
    sent = await _found_once(bench)
    async with bench.unreachable():
        _says_nothing(await bench.lookup(sent), "refuses connections")
    for what, fault in troubles(bench).items():
        with bench.fault(fault, on="any"):
            _says_nothing(await bench.lookup(sent), what)


async def several(bench: Bench) -> None:
    """Two facts under one id are not one."""
    _needs_lookup(bench)
    _needs_comparing(bench)
    sent = await _found_once(bench)
    again = await bench.perform(sent, attempt=2)
    there = await bench.facts(sent.id, at_least=1)
    if there < 2:  # noqa: PLR2004 - two are several
        raise NotTried("the outside makes no second fact of one id")
    del again
    await _visible(bench)
    looked = await bench.lookup(sent)
    wrong = looked.said in {"found", "absent", "refused"}
    expect(not wrong, f"{there} facts carry the id, and the lookup says {looked.said}")


async def differs(bench: Bench) -> None:
    """A fact that is not what was asked for is not it."""
    _needs_lookup(bench)
    _needs_comparing(bench)
    sent = await _found_once(bench)
    other = sent.effect.model_copy(update={"input": bench.effect().input})
    prepared = await bench.prepare(other)
    looked = await bench.lookup(prepared.model_copy(update={"job_id": sent.job_id}))
    wrong = looked.said in {"found", "absent", "refused"}
    expect(not wrong, f"what is there is not what was asked for, and the lookup says {looked.said}")


def _needs_lookup(bench: Bench) -> None:
    if bench.declared.lookup is None:
        raise NotTried("no lookup is declared")


def _needs_comparing(bench: Bench) -> None:
    if not bench.trial.compares:
        raise NotTried("the lookup cannot see the facts themselves (`compares`)")


async def _found_once(bench: Bench) -> Sent:
    sent, _ = await bench.made()
    await bench.found(sent)
    return sent


async def _visible(bench: Bench) -> None:
    """Wait until a fact that is made now is found: older ones are visible then, too."""
    await _found_once(bench)


async def _first_found(bench: Bench, sent: Sent) -> Found:
    """Ask until it is found. It was there when the attempt ended: what is not visible later, is late."""
    loop = asyncio.get_running_loop()
    there_at = loop.time()
    within_s = (bench.declared.lag + bench.trial.patience).total_seconds()
    late_s = 0.0
    for number in itertools.count(1):
        asked_at = loop.time() - there_at
        looked = await bench.lookup(sent)
        if isinstance(looked.finding, Found):
            bench.seen.lag_s = late_s
            return looked.finding
        if looked.said == "absent" and sent.job_id is None:
            late_s = asked_at
        if number >= _REPEATS and asked_at > within_s:
            raise Failed(
                f"a fact that exists is not found within {within_s:g} s: the lookup comes to "
                f"{_told(looked)}"
            )
        await asyncio.sleep(_POLL_S)
    raise AssertionError("counting ends")


def _says_nothing(looked: Looked, what: str) -> None:
    right = looked.said in _SAYS_NOTHING
    expect(right, f"an outside that {what} was taken for {looked.said}; raise LookupDown")


def troubles(bench: Bench) -> dict[str, Fault]:
    """Ways in which an outside that can be reached cannot be asked all the same."""
    faults: dict[str, Fault] = {"resets": DropReply("reset"), "closes": DropReply("close")}
    if not bench.http:
        return faults
    faults["cuts its answer off"] = CutReply(keep_bytes=-1)
    for status in (429, 500, 502, 503):
        faults[f"answers with {status}"] = Substitute(error(status), forwarded=False)
    if bench.trial.proof == "answer":
        page = success(b"<html></html>", "text/html")
        faults["answers with a page for people"] = Substitute(page, forwarded=False)
        faults["answers with nothing"] = Substitute(success(b""), forwarded=False)
    return faults


def _told(looked: Looked) -> str:
    if looked.said != "raised":
        return looked.said
    return f"{looked.reply.raised}: {looked.reply.text}"


CHECKS: Final = (
    Check("lookup_finds", "the lookup finds the very fact that was made", finds),
    Check("lookup_lag", "a fact is visible within the declared lag", lag),
    Check("lookup_absent", "what was never sent is not found, and not made by asking", absent),
    Check("lookup_down", "an outside that cannot be asked is never taken for 'absent'", down),
    Check("lookup_several", "several facts are not taken for one", several),
    Check("lookup_differs", "a fact that differs is not taken for what was asked for", differs),
)
