"""What the ledger holds of the effect, cut down to what any decision can depend on.

Times are ticks from now and end where nothing changes any more; counters are told relative to what
the actors hold of them. So the pages are few, though the ledger's rows never repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Final

from ascertain import keys
from ascertain.contracts.effect import (
    ABSENT_KEYED,
    FENCE,
    AuditEvent,
    Effect,
    EffectRow,
    Evidence,
    Receipt,
    State,
)
from ascertain.contracts.gate import Gate
from ascertain.ledger.gate import turn_of
from ascertain.ledger.memory import Memory
from ascertain.ledger.write import REFUSED_WRITE, RESENT
from ascertain.machine import Move
from drill.explorer.one import changed, one
from drill.explorer.setting import TICK, ticks

if TYPE_CHECKING:
    from drill.explorer.setting import Truth

NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)
VERSION: Final = 10
LEASE_VERSION: Final = 5
PERSON: Final = "alice"
STRANGER: Final = "bob"
NOBODY: Final = "an earlier call"
EFFECT: Final = Effect(
    effect_id="effect", task_id="task", step="step", kind="toy", partition="here", input={}
)
FINGERPRINT: Final = keys.fingerprint(EFFECT.kind, EFFECT.input)
ANOTHER: Final = "another-effect"
# How far into a ramp of one tick the effect's turn comes.
_TURN: Final = turn_of(EFFECT.effect_id, NOW, NOW + TICK) - NOW
# Rules of evidence, and error classes, that some later decision reads.
_LET_GO: Final = frozenset({Move.RELEASE.value, Move.RETRY.value})
_TELLING: Final = _LET_GO | {RESENT.rule, FENCE, ABSENT_KEYED}
_TELLING_ERRORS: Final = frozenset({"fact_taken"})
_SEEN: Final = Evidence(source="rule", rule="earlier")


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """The ledger's row of the effect, and its late receipts.

    Attributes:
        tries: Grants that count against the budget.
        first: No attempt came before the present one.
        lease: Ticks until the lease is over; negative: since when.
        resend: Ticks until a re-send counts as asking no more; None: it never did.
        rule: The evidence's rule where a decision reads it, else empty.
        since: Ticks since it is in this state, below zero; 0 where no decision reads it.
        error: The error class where a decision reads it, else empty.
        proof: The number of the fact that proves it.
        late: The number of the fact that the last late receipt names.
        elsewhere: Whether fact 0 proves another effect already.
    """

    state: State
    tries: int
    lease: int
    resend: int | None = None
    first: bool = True
    rule: str = ""
    since: int = 0
    error: str = ""
    job: bool = False
    taken: bool = False
    proof: int | None = None
    late: int | None = None
    elsewhere: bool = False


@cache
def later(page: Page, truth: Truth, lease: int) -> Page:
    """The same page one tick on. A re-send needs a whole ``lease`` of the key's life."""
    floor = -(truth.in_flight + (truth.lag or 0))
    resend = None if page.resend is None else max(page.resend - 1, lease - 1)
    since = max(page.since - 1, floor) if page.rule in _LET_GO else 0
    return changed(page, lease=max(page.lease - 1, floor), resend=resend, since=since)


def fact_id(number: int) -> str:
    """The outside's own id of a fact."""
    return f"fact-{number}"


def receipt_for(number: int) -> Receipt:
    """What proves a fact."""
    return Receipt(external_id=fact_id(number))


def fact_number(receipt: Receipt) -> int:
    """Which fact a receipt proves."""
    return int(receipt.external_id.removeprefix("fact-"))


def row_of(page: Page, owner: str = NOBODY) -> EffectRow:
    """The row that a page stands for, read now."""
    proof = None if page.proof is None else receipt_for(page.proof)
    attempt = 1 if page.first else 2 + page.tries
    return EffectRow(
        effect_id=EFFECT.effect_id,
        task_id=EFFECT.task_id,
        step=EFFECT.step,
        kind=EFFECT.kind,
        partition=EFFECT.partition,
        state=page.state,
        state_since=NOW + ticks(page.since),
        version=VERSION,
        attempt=attempt,
        budget_from=attempt - page.tries,
        lease_owner=owner,
        lease_version=LEASE_VERSION,
        lease_until=NOW + ticks(page.lease),
        first_sent_at=NOW,
        resend_until=None if page.resend is None else NOW + ticks(page.resend),
        fingerprint=FINGERPRINT,
        frozen=b"bytes",
        job_id="job" if page.job else None,
        receipt=proof,
        external_id=None if proof is None else proof.external_id,
        error_class=page.error or None,
        evidence=_SEEN.model_copy(update={"rule": page.rule or _SEEN.rule}),
        taken_by=PERSON if page.taken else None,
        created_at=NOW,
        now=NOW,
    )


def late_of(page: Page) -> tuple[AuditEvent, ...]:
    """The late receipts of a page, as the trail keeps them."""
    if page.late is None:
        return ()
    row = row_of(page)
    return (
        AuditEvent(
            effect_id=row.effect_id,
            seq=1,
            move=REFUSED_WRITE,
            actor="zombie",
            from_state=row.state,
            to_state=row.state,
            version=row.version,
            lease_version=LEASE_VERSION - 1,
            attempt=1,
            evidence=Evidence(source="late_write", rule="answer"),
            receipt=receipt_for(page.late),
            at=NOW,
            hash="00",
        ),
    )


def memory_of(
    page: Page | None,
    *,
    shut: bool = False,
    opening: bool = False,
    owner: str = NOBODY,
    rival: bool = False,
) -> Memory:
    """All that the ledger remembers, if the effect stands as ``page``.

    Args:
        page: None before the first claim.
        shut: Whether the gate is closed to the effect.
        opening: It opens little by little: the effect's turn comes now, or if it is shut, in the next moment.
        owner: Whose claim it is.
        rival: Whether another effect is in flight beside it.
    """
    since = NOW - _TURN + timedelta.resolution * shut if opening else NOW
    gate = Gate(
        partition=EFFECT.partition,
        paused=shut and not opening,
        since=since,
        by=PERSON,
        reason="incident",
        ramp_until=since + TICK if opening else None,
    )
    gates = {EFFECT.partition: gate}
    if page is None:
        return Memory(gates=gates)
    row = row_of(page, owner)
    rows = {row.effect_id: row}
    if page.elsewhere or rival:
        rows[ANOTHER] = _another(settled=page.elsewhere)
    return Memory(rows=rows, trails={row.effect_id: late_of(page)}, gates=gates)


def page_of(memory: Memory) -> Page | None:
    """The page that a memory comes down to."""
    row = memory.rows.get(EFFECT.effect_id)
    if row is None:
        return None
    return one(
        Page(
            state=row.state,
            tries=row.attempt - row.budget_from,
            lease=_ticks(row.lease_until - NOW),
            resend=None if row.resend_until is None else _ticks(row.resend_until - NOW),
            first=row.attempt == 1,
            rule=row.evidence.rule if row.evidence.rule in _TELLING else "",
            since=_ticks(row.state_since - NOW) if row.evidence.rule in _LET_GO else 0,
            error=row.error_class if row.error_class in _TELLING_ERRORS else "",
            job=row.job_id is not None,
            taken=row.taken_by is not None,
            proof=None if row.receipt is None else fact_number(row.receipt),
            late=_last_late(memory),
            elsewhere=_settled_elsewhere(memory),
        )
    )


def _another(*, settled: bool) -> EffectRow:
    state, proof = (State.SETTLED, 0) if settled else (State.IN_FLIGHT, None)
    row = row_of(Page(state, tries=1, lease=1, proof=proof))
    return row.model_copy(update={"effect_id": ANOTHER, "task_id": ANOTHER})


def _settled_elsewhere(memory: Memory) -> bool:
    other = memory.rows.get(ANOTHER)
    return other is not None and other.state is State.SETTLED


def _last_late(memory: Memory) -> int | None:
    trail = memory.trails.get(EFFECT.effect_id, ())
    known = [fact_number(event.receipt) for event in trail if _is_late(event) and event.receipt]
    return known[-1] if known else None


def _is_late(event: AuditEvent) -> bool:
    return event.move == REFUSED_WRITE


def _ticks(length: timedelta) -> int:
    return length // TICK
