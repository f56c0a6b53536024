"""The ledger's words as tests need them: one ordinary request or outcome, changed where the test says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ascertain.contracts import outcome
from ascertain.contracts.claim import ClaimRequest, Granted, Lease, Moved, Verdict
from ascertain.contracts.effect import Effect, EffectRow, Evidence, Receipt, State
from ascertain.machine import Move
from ascertain.ports import Ledger

LEASE = timedelta(seconds=5)
PERSON = Evidence(source="person", rule="said", detail="alice: looked at the provider's page")
ANSWER = Evidence(source="answer", rule="status", detail="the answer was 200", body={"status": 200})
SEEN = Evidence(source="lookup", rule="absent", detail="a complete answer without it")


def effect(name: str = "1", **changes: Any) -> Effect:
    fields = {
        "effect_id": f"ef1-{name}",
        "task_id": f"task-{name}",
        "step": "charge",
        "kind": "toy.fact",
        "partition": "p",
        "input": {"amount": 7},
    }
    return Effect(**{**fields, **changes})


def request(name: str = "1", **changes: Any) -> ClaimRequest:
    fields: dict[str, Any] = {
        "effect": effect(name),
        "fingerprint": "f" * 64,
        "frozen": b'{"amount":7}',
        "owner": f"worker/{name}",
        "lease": LEASE,
        "budget": 5,
    }
    return ClaimRequest(**{**fields, **changes})


def receipt(external_id: str = "fact-1", **changes: Any) -> Receipt:
    return Receipt(external_id=external_id, **changes)


def settled(external_id: str = "fact-1", **changes: Any) -> outcome.Settled:
    return outcome.Settled(receipt=receipt(external_id, **changes), evidence=ANSWER)


def accepted(job_id: str = "job-1") -> outcome.Accepted:
    return outcome.Accepted(job_id=job_id, evidence=ANSWER)


def refused() -> outcome.Refused:
    return outcome.Refused(error_class="declined", evidence=ANSWER)


def not_done() -> outcome.NotDone:
    return outcome.NotDone(error_class="refused_before_work", evidence=ANSWER)


def unknown() -> outcome.Unknown:
    return outcome.Unknown(error_class="reset", evidence=ANSWER)


def verdict(state: State, **changes: Any) -> Verdict:
    if state is State.SETTLED:
        changes.setdefault("receipt", receipt())
    if state is State.ACCEPTED:
        changes.setdefault("job_id", "job-1")
    return Verdict(state, **{"evidence": SEEN, **changes})


async def granted(ledger: Ledger, name: str = "1", **changes: Any) -> Lease:
    answer = await ledger.claim(request(name, **changes))
    assert isinstance(answer, Granted), answer
    return answer.lease


async def moved(write: Any) -> EffectRow:
    written = await write
    assert isinstance(written, Moved), written
    return written.row


async def in_state(ledger: Ledger, state: State, name: str = "1") -> EffectRow:
    """Bring a new effect into a state by legal moves alone."""
    lease = await granted(ledger, name)
    if state is State.IN_FLIGHT:
        return await standing(ledger, name)
    first = {
        State.SETTLED: settled(f"fact-{name}"),
        State.ACCEPTED: accepted(),
        State.REFUSED: refused(),
        State.CLEAR: not_done(),
        State.ABANDONED: not_done(),
        State.SUPERSEDED: not_done(),
    }.get(state, unknown())
    row = await moved(ledger.record(lease, first))
    match state:
        case State.QUARANTINED:
            stop = verdict(State.QUARANTINED, error_class="several")
            return await moved(ledger.converge(row.effect_id, row.version, stop, "reconcile"))
        case State.TAKEN_OVER | State.ABANDONED | State.SUPERSEDED:
            move = {
                State.TAKEN_OVER: Move.TAKE,
                State.ABANDONED: Move.ABANDON,
                State.SUPERSEDED: Move.SUPERSEDE,
            }[state]
            said = verdict(state, evidence=PERSON)
            return await moved(ledger.decide(row.effect_id, row.version, move, said, "alice"))
        case _:
            return row


async def standing(ledger: Ledger, name: str = "1") -> EffectRow:
    case = await ledger.inspect(f"ef1-{name}")
    assert case is not None
    return case.row
