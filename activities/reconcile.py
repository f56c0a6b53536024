"""``reconcile``: ask what stands outside, converge the ledger, directive. Runs before any retry."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from temporalio import activity

from activities import order, unserved
from activities.attempt import LEDGER_PAUSE
from activities.dispatch import conflicting, dispatch, other_content, put_in_doubt
from activities.heartbeat import beating
from activities.question import ask, unproved
from activities.serving import Served, Serving, Unserved
from ascertain import keys, policy
from ascertain.contracts import directive, names
from ascertain.contracts.claim import Conflict, Lease, Moved, Taken, Verdict
from ascertain.contracts.directive import RunQueued
from ascertain.contracts.effect import Evidence, State
from ascertain.contracts.work import Answer, Work
from ascertain.errors import LedgerDown, LookupDown
from ascertain.ports import Call
from ascertain.wait import NO_WAIT

if TYPE_CHECKING:
    from activities.serving import Unserved
    from ascertain.contracts.directive import Directive
    from ascertain.contracts.effect import AuditEvent, Effect, EffectRow
    from ascertain.ports import Case

IN_DOUBT = frozenset({State.UNKNOWN, State.ACCEPTED, State.QUARANTINED})
# A lost race is read again; more than a few in a row means that somebody else is at work.
RACES = 5


class Reconcile:
    """The activity that asks. It acts only where a re-send is the question."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    @activity.defn(name=names.RECONCILE)
    async def reconcile(self, work: Work) -> Answer:
        """Find out what became of one effect and write it down."""
        try:
            return Answer(directive=await self._withdrawn(work) or await self._served(work))
        except LedgerDown as error:
            return Answer(directive=_later(work, LEDGER_PAUSE, str(error)))

    async def _withdrawn(self, work: Work) -> Directive | None:
        """Close it for a cancelled task, which needs no adapter; None while it has to be asked for."""
        if not work.withdraw:
            return None
        ledger, effect = self._serving.ledger, work.effect
        fingerprint = keys.fingerprint(effect.kind, effect.input)
        answer = await ledger.withdraw(effect, fingerprint, self._serving.identity)
        if isinstance(answer, Conflict):
            return conflicting(answer)
        row = answer.row
        if row is None or row.state is not State.ABANDONED:
            return None
        return directive.Refused(state=row.state, reason=row.evidence.detail)

    async def _served(self, work: Work) -> Directive:
        await self._record_unrecorded(work)  # which needs no adapter, and nobody else is told
        served = self._serving.find(work.effect.kind)
        if isinstance(served, RunQueued) and served.task_queue != work.dead_queue:
            return served
        async with beating():
            if not isinstance(served, Served):
                return await unserved.stands(self._serving, work, _unserved(work, served))
            following = await self._ascertain(served, work)
            if work.withdraw and isinstance(following, directive.RetryIn):
                why = "whether it was begun is found out first"
                following = await self._withdrawn(work) or _later(work, NO_WAIT, why)
                if isinstance(following, directive.ReconcileIn):
                    await put_in_doubt(self._serving, served, work.effect)
        return following

    async def _ascertain(self, served: Served, work: Work) -> Directive:
        for _ in range(RACES):
            case = await self._serving.ledger.inspect(work.effect.effect_id)
            if case is None:
                return directive.RetryIn(delay=timedelta(0), reason="it was never claimed")
            conflict = other_content(case.row, work.effect)
            following = conflict or await self._step(served, work.effect, case)
            if following is not None:
                return following
        return directive.ReconcileIn(delay=LEDGER_PAUSE, reason="others are moving this effect")

    async def _record_unrecorded(self, work: Work) -> None:
        """What an attempt knew and could not write is written now, or kept as a late write."""
        held = work.unrecorded
        if held is not None:
            lease = Lease(work.effect.effect_id, held.owner, held.lease_version, held.attempt)
            await self._serving.ledger.record(lease, held.outcome, retry_in=held.retry_in)

    async def _step(self, served: Served, effect: Effect, case: Case) -> Directive | None:
        """One look at the effect; None when somebody moved it under our hands."""
        row = case.row
        if case.late and row.state in IN_DOUBT | {State.CLEAR}:
            return await self._converge(served, row, _late(case.late[-1]))
        if row.state is State.IN_FLIGHT and row.now >= row.lease_until:
            await self._serving.ledger.fence(row.effect_id, row.version, self._serving.identity)
            return None
        expired = policy.stranded(row, served.kind)
        if expired is not None:
            return await self._converge(served, row, expired)
        if row.state not in IN_DOUBT:
            following = policy.directive_for(row, served.kind)
            return await order.recalled(self._serving.ledger, row.effect_id, following)
        return await self._question(served, effect, row)

    async def _question(self, served: Served, effect: Effect, row: EffectRow) -> Directive | None:
        question = policy.next_question(row, served.kind)
        match question:
            case policy.Wait():
                return policy.directive_for(row, served.kind)
            case policy.Give(verdict):
                return await self._converge(served, row, verdict)
            case policy.Resend():
                return await dispatch(self._serving, served, effect, resend=True)
            case policy.Lookup():
                return await self._lookup(served, effect, row)
            case _:
                assert_never(question)

    async def _lookup(self, served: Served, effect: Effect, row: EffectRow) -> Directive | None:
        call = Call.about(effect, row)
        ledger, outages = self._serving.ledger, self._serving.outages
        try:
            found = await unproved(ledger, row.kind, await ask(served, call))
        except LookupDown as error:
            why, waiting = await outages.down(ledger, row, str(error))
            return policy.directive_for(row, served.kind, slower=True, why=why, waiting=waiting)
        await outages.up(ledger, row)
        verdict = policy.judge(row, found, served.kind)
        if isinstance(verdict, policy.StillOpen):
            return policy.directive_for(row, served.kind, slower=verdict.slower, why=verdict.reason)
        return await self._converge(served, row, verdict)

    async def _converge(self, served: Served, row: EffectRow, verdict: Verdict) -> Directive | None:
        ledger, by = self._serving.ledger, self._serving.identity
        written = await ledger.converge(row.effect_id, row.version, verdict, by)
        if isinstance(written, Taken):
            why = written.why
            if row.state is State.QUARANTINED:
                return policy.directive_for(row, served.kind, why=why)
            evidence = Evidence(source="rule", rule="fact_taken", detail=why)
            other = Verdict(State.QUARANTINED, evidence, error_class="fact_taken")
            written = await ledger.converge(row.effect_id, row.version, other, by)
        return (
            policy.directive_for(written.row, served.kind) if isinstance(written, Moved) else None
        )


def _unserved(work: Work, found: RunQueued | Unserved) -> str:
    if work.dead_queue is None:
        return found.reason
    return f"no worker takes this from task queue {work.dead_queue}; one that serves it must run"


def _later(work: Work, delay: timedelta, why: str) -> Directive:
    """Nothing was found out: the same question again, with all that it carried."""
    return directive.ReconcileIn(delay=delay, reason=why, unrecorded=work.unrecorded)


def _late(event: AuditEvent) -> Verdict:
    evidence = Evidence(
        source="late_write",
        rule="late_receipt",
        detail=f"{event.actor} had its answer too late to record it (lease {event.lease_version})",
    )
    return Verdict(State.SETTLED, evidence, receipt=event.receipt)
