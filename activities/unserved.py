"""An effect of a kind that nobody knows or serves now: what the ledger alone proves of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from activities import order
from activities.dispatch import other_content
from ascertain import policy
from ascertain.contracts import directive
from ascertain.contracts.directive import UNSERVED
from ascertain.contracts.effect import ABSENT_KEYED, TERMINAL, State

if TYPE_CHECKING:
    from activities.serving import Serving
    from ascertain.contracts.directive import Directive
    from ascertain.contracts.work import Work
    from ascertain.ports import Case

PAUSE = timedelta(seconds=1)
PAUSE_MAX = timedelta(seconds=30)


def _pause_of(work: Work) -> timedelta:
    """How long it waits until somebody is looked for again: short at first, for the next may know it."""
    doubled: int = 2 ** min(work.turned_away, 10)
    return min(PAUSE * doubled, PAUSE_MAX)


async def stands(serving: Serving, work: Work, why: str) -> Directive:
    """The next step of a task whose effect nobody can be found to do or to ask for.

    Raises:
        LedgerDown: Nothing can be said of it at all.
    """
    case = await serving.ledger.inspect(work.effect.effect_id)
    conflict = None if case is None else other_content(case.row, work.effect)
    following = conflict or _directive_for(case, _pause_of(work), why)
    return await order.recalled(serving.ledger, work.effect.effect_id, following)


def _directive_for(case: Case | None, delay: timedelta, why: str) -> Directive:
    if case is None:
        reason = f"it was never claimed, so it does not exist; {why}"
        return directive.RetryIn(delay=delay, reason=reason, error_class=UNSERVED)
    row = case.row
    if row.state is State.SETTLED and row.receipt is not None:
        return directive.Done(receipt=row.receipt)
    if row.state is State.SUPERSEDED and row.superseded_by is not None:
        return policy.superseded(row, row.superseded_by)
    why = policy.reason_of(row, why)
    standing = _standing(case, why)
    if row.state in TERMINAL:
        return directive.Refused(state=row.state, reason=row.evidence.detail, standing=standing)
    if row.state is State.TAKEN_OVER:
        by = row.taken_by or "somebody"
        return directive.TakenOver(by=by, ask_again_in=PAUSE_MAX, reason=why, standing=standing)
    # That a key protects, which only the kind's semantics tell, must not be what its absence rests on.
    if row.state is State.CLEAR and not case.late and row.evidence.rule != ABSENT_KEYED:
        return directive.RetryIn(delay=delay, reason=why, standing=standing, error_class=UNSERVED)
    return directive.ReconcileIn(delay=delay, reason=why, standing=standing, error_class=UNSERVED)


def _standing(case: Case, why: str) -> directive.Standing:
    """Without advice: what is safe depends on the kind's semantics."""
    row = case.row
    return directive.Standing(
        state=row.state,
        version=row.version,
        attempt=row.attempt,
        lease_version=row.lease_version,
        error_class=row.error_class,
        external_id=row.external_id,
        job_id=row.job_id,
        reason=why,
    )
