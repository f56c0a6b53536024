"""One step's effects of one task, brought into any state of a ledger's pure twin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ascertain import keys, policy
from ascertain.contracts import outcome
from ascertain.contracts.claim import ClaimRequest, Granted, Moved, Verdict
from ascertain.contracts.effect import Effect, Evidence, Receipt, State
from ascertain.machine import Move

if TYPE_CHECKING:
    from ascertain.contracts.claim import Lease
    from ascertain.ledger.model import ModelLedger

T0 = datetime(2026, 1, 1, tzinfo=UTC)
SAID = Evidence(source="person", rule="said")
ANSWER = Evidence(source="answer", rule="status")
DOUBT = outcome.Unknown(error_class="reset", evidence=ANSWER)
UNSENT = outcome.NotDone(error_class="throttled", evidence=ANSWER)
SETTLED = outcome.Settled(receipt=Receipt(external_id="fact-0"), evidence=ANSWER)
# What its one attempt came to; doubt, where that is not said.
CAME_TO = {
    State.SETTLED: SETTLED,
    State.REFUSED: outcome.Refused(error_class="declined", evidence=ANSWER),
    State.ACCEPTED: outcome.Accepted(job_id="job-1", evidence=ANSWER),
    State.CLEAR: UNSENT,
    State.ABANDONED: UNSENT,
    State.SUPERSEDED: UNSENT,
}


class Clock:
    now = T0

    def __call__(self) -> datetime:
        return self.now


def effect(revision: int = 0) -> Effect:
    return Effect(
        effect_id=keys.effect_id("default", "task-1", "do", revision),
        task_id="task-1",
        step="do",
        revision=revision,
        kind="toy.fact",
        partition="p",
        input={"amount": revision},
        begun_at=T0,
    )


def request(of: Effect) -> ClaimRequest:
    return ClaimRequest(
        of, keys.fingerprint(of.kind, of.input), b"", "w/1", timedelta(seconds=5), budget=5
    )


async def stands(ledger: ModelLedger, state: State) -> Lease:
    """Bring the first effect there; its claim's lease."""
    granted = await ledger.claim(request(effect()))
    assert isinstance(granted, Granted)
    if state is State.IN_FLIGHT:
        return granted.lease
    written = await ledger.record(granted.lease, CAME_TO.get(state, DOUBT))
    assert isinstance(written, Moved)
    row, said = written.row, Verdict(state, SAID)
    match state:
        case State.QUARANTINED:
            await ledger.converge(row.effect_id, row.version, said, "w/1")
        case State.TAKEN_OVER:
            await ledger.decide(row.effect_id, row.version, Move.TAKE, said, "ada")
        case State.ABANDONED:
            await ledger.decide(row.effect_id, row.version, Move.ABANDON, said, "ada")
        case State.SUPERSEDED:
            body = policy.amendment(effect(1))
            by = Verdict(
                state, SAID.model_copy(update={"body": body}), superseded_by=effect(1).effect_id
            )
            await ledger.amend(row.effect_id, row.version, None, by, "ada")
    inspected = await ledger.inspect(row.effect_id)
    assert inspected is not None
    assert inspected.row.state is state
    return granted.lease
