"""Batches: one call for many effects, of which each keeps its own permit, outcome, fact and lookup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ascertain.contracts.outcome import Settled
from ascertain.testing.conformance.check import Check
from ascertain.testing.conformance.reply import error
from ascertain.testing.conformance.verdict import Failed, NotTried, expect
from ascertain.testing.fault import CutReply, DropReply, Fault, Substitute

if TYPE_CHECKING:
    from ascertain.testing.conformance.bench import Bench
    from ascertain.testing.conformance.message import Sent
    from ascertain.testing.conformance.seen import Attempted

_MOST: Final = 4
_TRIES: Final = 3
_NOT_DONE: Final = frozenset({"refused", "not_done", "permit_lost"})


async def batch(bench: Bench) -> None:
    """A plain batch."""
    sents, attempts = await _made(bench)
    checks = attempts[0].reply.checks
    expect(checks == (1,) * len(sents), f"the permits were checked {checks} times; once each")
    if bench.http or bench.trial.makes is not None:
        made = sum(map(bench.makes, attempts[0].requests))
        expect(made == 1, f"one batch of {len(sents)} made {made} requests")
    receipts = [one.outcome.receipt for one in attempts if isinstance(one.outcome, Settled)]
    distinct = {receipt.external_id for receipt in receipts}
    expect(len(distinct) == len(receipts), "effects of one batch were settled with the same fact")
    for sent, attempted in zip(sents, attempts, strict=True):
        await _is_its_own(bench, sent, attempted)


async def batch_permit(bench: Bench) -> None:
    """One permit of the batch is refused."""
    sents = await _fresh(bench)
    attempts = await bench.perform_many(sents, lost=True)
    left = sum(map(bench.makes, attempts[0].requests))
    expect(not left, f"{left} requests left although the permit of one effect was refused")
    said = {attempted.said for attempted in attempts}
    right = said <= {"permit_lost", "not_done"}
    expect(right, f"a refused permit came to {', '.join(sorted(said))}; let PermitLost pass")
    if bench.trial.facts is not None:
        there = [await bench.facts(sent.id) for sent in sents]
        expect(not any(there), f"{sum(there)} facts were made although a permit was refused")


async def batch_parts(bench: Bench) -> None:
    """The answer leaves one out; then the outside refuses the whole, which says nothing of one."""
    bench.over_http()
    sents, other, found = await _fresh(bench), bench.effect().effect_id, set[bool]()
    forgotten = sents[-1]

    def without(reply: bytes) -> bytes:
        found.add(forgotten.id.encode() in reply)
        return reply.replace(forgotten.id.encode(), other.encode())

    with bench.fault(Substitute(without)):
        attempts = await bench.perform_many(sents)
    if not any(found):
        raise NotTried("the outside's answer to a batch does not name effects by their ids")
    told = attempts[-1].told
    expect(attempts[-1].doubted, f"an effect that the answer does not mention came to {told}")
    denied = [one.told for one in attempts if one.said in _NOT_DONE]
    expect(not denied, f"an answer that leaves another one out came to {denied[:1]}")
    with bench.fault(Substitute(error(400), forwarded=False)):
        attempts = await bench.perform_many(await _fresh(bench))
    closed = [one.told for one in attempts if one.said == "refused" or one.done]
    expect(not closed, f"a batch that was refused as a whole came to {closed[:1]} for one of it")


async def batch_lost(bench: Bench) -> None:
    """The outside has done all of it, and its answer does not arrive."""
    bench.needs_making_request()
    faults: dict[str, Fault] = {"by a reset": DropReply("reset"), "by a close": DropReply("close")}
    if bench.http:
        faults["before its last byte"] = CutReply(keep_bytes=-1)
        faults["behind a gateway's 504"] = Substitute(error(504))
    for where, fault in faults.items():
        sents = await _fresh(bench)
        with bench.fault(fault):
            attempts = await bench.perform_many(sents)
        wrong = [one.told for one in attempts if not one.doubted]
        seen = f"the answer to a batch was lost {where}, and one of it came to {wrong[:1]}"
        expect(not wrong, f"{seen}; only doubt is true")
        for sent, attempted in zip(sents, attempts, strict=True):
            await _is_its_own(bench, sent, attempted)


async def _made(bench: Bench) -> tuple[list[Sent], list[Attempted]]:
    """A batch that is done. A connection of the pool may have been cut by the check before."""
    attempts: list[Attempted] = []
    for _ in range(_TRIES):
        sents = await _fresh(bench)
        attempts = await bench.perform_many(sents)
        if all(attempted.done for attempted in attempts):
            return sents, attempts
    told = ", ".join(sorted({attempted.told for attempted in attempts}))
    raise Failed(f"a plain batch comes to {told}")


async def _fresh(bench: Bench) -> list[Sent]:
    most = min(bench.opened.batch_max, _MOST)
    if most <= 1:
        raise NotTried("the adapter takes no batches")
    return [await bench.fresh() for _ in range(most)]


async def _is_its_own(bench: Bench, sent: Sent, attempted: Attempted) -> None:
    """One fact, which the lookup finds by the effect's own id."""
    if bench.trial.facts is not None:
        there = await bench.facts(sent.id, at_least=1)
        expect(there == 1, f"an effect of a batch has {there} facts")
    if bench.declared.lookup is None or attempted.said == "accepted":
        return
    found = (await bench.found(sent)).receipt.external_id
    if isinstance(attempted.outcome, Settled):
        told = attempted.outcome.receipt.external_id
        expect(told == found, f"the batch settled it with {told!r}, the lookup finds {found!r}")


CHECKS: Final = (
    Check("batch", "each effect of a batch has its own permit, fact and lookup", batch),
    Check("batch_permit", "a batch of which one permit is refused sends nothing", batch_permit),
    Check(
        "batch_parts",
        "what a batch's answer leaves out is doubt, and refusing the whole closes none of it",
        batch_parts,
    ),
    Check("batch_lost", "a batch whose answer is lost is doubt, and each is looked up", batch_lost),
)
