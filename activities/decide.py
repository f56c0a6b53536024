"""``decide``: a person's command, checked against the outside and the ledger, then applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio import activity

from activities.question import ask
from activities.serving import Served, Serving
from ascertain import policy
from ascertain.contracts import finding, names
from ascertain.contracts.claim import Moved, Taken, Verdict
from ascertain.contracts.command import Action, Command, CommandAnswer
from ascertain.contracts.effect import Evidence
from ascertain.contracts.work import Decision
from ascertain.errors import LedgerDown, LookupDown
from ascertain.machine import next_state
from ascertain.objection import objection
from ascertain.policy import MOVE_OF
from ascertain.ports import Call

if TYPE_CHECKING:
    from ascertain.contracts.claim import Written
    from ascertain.contracts.effect import EffectRow, Receipt
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.value import JsonObject
    from ascertain.ports import Case, Kind

# These two say what stands outside, so the outside is asked before they are believed.
BELIEVED = frozenset({Action.CONFIRM, Action.DENY})


class Decide:
    """The activity behind every takeover command."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    @activity.defn(name=names.DECIDE)
    async def decide(self, decision: Decision) -> CommandAnswer:
        """Apply a command, or refuse it with the one sentence that says what stands in its way."""
        served = self._serving.find(decision.effect.kind)
        if not isinstance(served, Served):  # the workflow sends it to the kind's own queue
            return refused(decision, f"cannot be applied here now: {served.reason}")
        try:
            return await self._decide(served, decision)
        except LedgerDown as error:
            return refused(decision, f"not known to be applied, look at the status: {error}")

    async def _decide(self, served: Served, decision: Decision) -> CommandAnswer:
        case = await self._serving.ledger.inspect(decision.effect.effect_id)
        if case is None:
            return refused(decision, "the effect was never claimed, so there is nothing to decide")
        blocked = policy.refusal(decision.command, case.row, served.kind)
        if blocked is not None:
            return refused(decision, blocked, case.row, served.kind)
        verdict = await self._verdict(served, decision, case)
        if isinstance(verdict, str):
            return refused(decision, verdict, case.row, served.kind)
        return await self._apply(served, decision, verdict)

    async def _apply(self, served: Served, decision: Decision, verdict: Verdict) -> CommandAnswer:
        command = decision.command
        written = await self._serving.ledger.decide(
            decision.effect.effect_id,
            command.version,
            MOVE_OF[command.action],
            verdict,
            command.operator,
        )
        return _answer(decision, written, served.kind)

    async def _verdict(self, served: Served, decision: Decision, case: Case) -> Verdict | str:
        command, row = decision.command, case.row
        target = next_state(row.state, MOVE_OF[command.action])
        if target is None:
            return f"{command.action} is not possible while the effect is {row.state}"
        seen = await self._look(served, decision, row) if command.action in BELIEVED else None
        against = objection(command, case, seen, served.kind)
        if against is not None and not command.override:
            return against
        receipt = _receipt(command, case, seen) if command.action is Action.CONFIRM else None
        if receipt is None and command.action is Action.CONFIRM:
            return "confirm needs a receipt with the fact's external_id: the lookup did not find it"
        error_class = "denied" if command.action is Action.DENY else row.error_class
        return Verdict(target, _evidence(command), receipt=receipt, error_class=error_class)

    async def _look(
        self, served: Served, decision: Decision, row: EffectRow
    ) -> Finding | LookupDown | None:
        """What the outside says before a person is believed; None where it cannot be asked at all."""
        if served.kind.semantics.lookup is None:
            return None
        call = Call(decision.effect, row.frozen, row.attempt, row.job_id, row.external_id)
        try:
            return await ask(served, call)
        except LookupDown as error:
            return error


def _receipt(command: Command, case: Case, seen: Finding | LookupDown | None) -> Receipt | None:
    """A fact that was found outranks what a person typed, unless they tie one of several."""
    if isinstance(seen, finding.Found):
        return seen.receipt
    return command.receipt or (case.late[-1].receipt if case.late else None)


def _evidence(command: Command) -> Evidence:
    body: JsonObject = {
        "seen": command.evidence,
        "override": command.override,
        "request_id": command.request_id,
    }
    detail = f"{command.operator}: {command.reason}"
    return Evidence(source="person", rule=command.action.value, detail=detail, body=body)


def _answer(decision: Decision, written: Written, kind: Kind) -> CommandAnswer:
    command = decision.command
    if isinstance(written, Moved):
        state = written.row.state
        return CommandAnswer(
            applied=True,
            message=f"{command.action} applied: the effect is {state}",
            effect_id=decision.effect.effect_id,
            standing=policy.standing_of(written.row, kind),
        )
    if isinstance(written, Taken):
        why = f"the fact {written.external_id} already proves {written.effect_id}"
        return refused(decision, why, written.row, kind)
    if written.row is None:
        return refused(decision, "the effect is not in the ledger")
    stale = policy.refusal(command, written.row, kind) or "it was moved at the same moment"
    return refused(decision, stale, written.row, kind)


def refused(
    decision: Decision, why: str, row: EffectRow | None = None, kind: Kind | None = None
) -> CommandAnswer:
    """A command that was not applied, and what stands."""
    standing = policy.standing_of(row, kind) if row is not None and kind is not None else None
    return CommandAnswer(
        applied=False,
        message=f"{decision.command.action} refused: {why}",
        effect_id=decision.effect.effect_id,
        standing=standing,
    )
