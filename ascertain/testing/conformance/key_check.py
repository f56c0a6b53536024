"""The key: whether the outside honours it, for how long, and whether it compares bodies."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ascertain.contracts.outcome import Settled
from ascertain.testing.conformance.bench import Bench
from ascertain.testing.conformance.check import Check
from ascertain.testing.conformance.message import Sent
from ascertain.testing.conformance.verdict import Failed, NotTried, expect

if TYPE_CHECKING:
    from ascertain.contracts.effect import Effect
    from ascertain.testing.conformance.seen import Attempted

_AT_ONCE: Final = 5
_PROBES: Final = 6


async def key(bench: Bench) -> None:
    """The same bytes under the same key, twice and then many at once."""
    _needs_facts(bench)
    sent, first = await bench.made()
    second = await bench.perform(sent, attempt=2)
    one = await _is_one(bench, sent, first, second)
    bench.seen.key_honoured = one
    if bench.declared.idempotent_for is None:
        raise NotTried("no key is declared")
    expect(one, "declared idempotent_for, and a second send of the same bytes made a second fact")
    if bench.trial.facts is None:
        return
    sent = await bench.fresh()
    await asyncio.gather(*(bench.perform(sent) for _ in range(_AT_ONCE)))
    there = await bench.facts(sent.id, at_least=1)
    bench.seen.key_honoured = there <= 1
    expect(there <= 1, f"declared idempotent_for, and {_AT_ONCE} sends at once made {there} facts")


async def key_life(bench: Bench) -> None:
    """How long the key lives, as far as there is patience."""
    declared = bench.declared.idempotent_for
    if declared is None or not bench.seen.key_honoured:
        raise NotTried("no key is declared, or none is honoured")
    loop = asyncio.get_running_loop()
    first_sent = loop.time()
    sent, first = await bench.made()
    for attempt in range(_PROBES):
        await asyncio.sleep(bench.trial.patience.total_seconds() / _PROBES)
        before = loop.time() - first_sent
        again = await bench.perform(sent, attempt=attempt + 2)
        after = loop.time() - first_sent
        if not await _is_one(bench, sent, first, again):
            bench.seen.key_forgotten_after_s = after
            kept = timedelta(seconds=after) >= declared
            expect(kept, f"declared {declared}, and the key was forgotten after {after:.1f} s")
            return
        bench.seen.key_honoured_for_s = before


async def compares_bodies(bench: Bench) -> None:
    """Another body under a key that was used."""
    _needs_facts(bench)
    sent, first = await bench.made()
    other = await bench.prepare(_with_other_input(bench, sent))
    expect(other.frozen != sent.frozen, "two inputs of the trial freeze to the same bytes")
    second = await bench.perform(other, attempt=2)
    one = await _is_one(bench, sent, first, second)
    bench.seen.compares_bodies = one and second.said != "settled"
    denied = second.said in {"refused", "not_done"}
    expect(
        not (denied and one),
        f"another body under a used key came to {second.told}, and the effect has a fact",
    )
    if not bench.declared.compares_bodies:
        raise NotTried("it is not declared that bodies are compared")
    if not bench.seen.compares_bodies:
        seen = "made a second fact" if not one else "was answered like the first"
        raise Failed(f"declared compares_bodies, and another body under the same key {seen}")


def _with_other_input(bench: Bench, sent: Sent) -> Effect:
    return sent.effect.model_copy(update={"input": bench.effect().input})


def _needs_facts(bench: Bench) -> None:
    if bench.declared.pure or bench.declared.harmless:
        raise NotTried("a duplicate costs nothing that matters")


async def _is_one(bench: Bench, sent: Sent, *attempts: Attempted) -> bool:
    """Whether there is one fact: by the outside's books, or by the ids that it gives."""
    if bench.trial.facts is not None:
        return await bench.facts(sent.id, at_least=1) <= 1
    outcomes = [attempted.outcome for attempted in attempts]
    ids = {outcome.receipt.external_id for outcome in outcomes if isinstance(outcome, Settled)}
    if any(attempted.said in {"raised", "unknown"} for attempted in attempts) or not ids:
        raise NotTried("there are no books, and the attempts do not tell which fact they made")
    return len(ids) == 1


CHECKS: Final = (
    Check("key", "a key that is declared is honoured", key),
    Check("key_life", "a key lives as long as is declared, as far as there is patience", key_life),
    Check("compares_bodies", "another body under a used key is no answer to it", compares_bodies),
)
