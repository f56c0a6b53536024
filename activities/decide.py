"""``decide``: a person's command, checked against the outside and the ledger, then applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from temporalio import activity

from activities.order import orders_undo
from activities.question import ask, unproved
from activities.serving import Served, Serving
from ascertain import approval, keys, policy
from ascertain.contracts import finding, names
from ascertain.contracts.claim import Moved, Taken, Verdict
from ascertain.contracts.command import Action, Command, CommandAnswer, Freed
from ascertain.contracts.effect import Evidence, State
from ascertain.contracts.work import Decision
from ascertain.errors import AscertainError, LedgerDown, LookupDown
from ascertain.objection import objection
from ascertain.policy import MOVE_OF
from ascertain.ports import Call, EffectFilter

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ascertain.contracts.claim import Written
    from ascertain.contracts.effect import AuditEvent, EffectRow, Receipt
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.value import JsonObject
    from ascertain.ports import Case, Kind

# These say what stands outside, so the outside is asked before they are believed.
BELIEVED = frozenset({Action.CONFIRM, Action.DENY, Action.AMEND})

QUARANTINED = frozenset({State.QUARANTINED})
# Of more than these the rest is decided by hand.
MOST_FREED = 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """A command with all that it is judged by.

    Attributes:
        first: The same command of another person, where two are needed and one has spoken.
        alone: Why one person is not enough; None if one is, or if this is the second.
    """

    decision: Decision
    served: Served
    case: Case
    first: AuditEvent | None = None
    alone: str | None = None

    @property
    def command(self) -> Command:
        """What the person says."""
        return self.decision.command

    @property
    def kind(self) -> Kind:
        """The effect's kind."""
        return self.served.kind

    @property
    def acting(self) -> str:
        """Who moves it: what somebody has taken over moves in that person's name alone."""
        owner = self.case.row.taken_by if self.case.row.state is State.TAKEN_OVER else None
        if self.first is not None and self.first.actor == owner:
            return self.first.actor
        return self.command.operator

    def refused(self, why: str, row: EffectRow | None = None) -> CommandAnswer:
        """A command that was not applied, and what stands."""
        return refused(self.decision, why, row or self.case.row, self.kind)


NEVER_CLAIMED = (
    "the ledger knows no claim of it. Unless the ledger was restored from a backup, nothing was done and "
    "nothing can exist outside: cancel the task if it is not wanted any more, which ends it now. After a "
    "restore it may exist: have it asked for first (reconcile), then decide"
)


class Decide:
    """The activity behind every takeover command."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    @activity.defn(name=names.DECIDE)
    async def decide(self, decision: Decision) -> CommandAnswer:
        """Apply a command, or refuse it with the one sentence that says what stands in its way."""
        try:
            used = await self._used_for_another(decision)
            if used is not None:
                return refused(decision, used)
            if decision.command.action is Action.UNDO:
                return await self._order_undo(decision)
            served = self._serving.find(decision.effect.kind)
            if not isinstance(served, Served):  # the workflow sends it to the kind's own queue
                return refused(decision, f"cannot be applied here now: {served.reason}")
            return await self._decide(served, decision)
        except LedgerDown as error:
            message = (
                f"{decision.command.action} is not known to be applied, look at the status: {error}"
            )
            return CommandAnswer(
                applied=False,
                message=message,
                in_doubt=True,
                effect_id=decision.effect.effect_id,
            )

    async def _decide(self, served: Served, decision: Decision) -> CommandAnswer:
        case = await self._serving.ledger.inspect(decision.effect.effect_id)
        if case is None:
            return refused(decision, NEVER_CLAIMED)
        asked = await self._second_person(Asked(decision, served, case))
        blocked = await self._blocked(asked)
        if blocked is not None:
            return blocked
        verdict = await self._verdict(asked)
        if isinstance(verdict, str):
            return asked.refused(verdict)
        if asked.alone is not None:
            return await self._put_on_record(asked, asked.alone)
        return await self._apply(asked, verdict)

    async def _used_for_another(self, decision: Decision) -> str | None:
        """Why a command is the repeat of one about another effect of the task; None if it is none.

        One that names no effect means the open one, which after a reset can be another than before.
        """
        effect, ledger = decision.effect, self._serving.ledger
        if decision.command.request_id is None:
            return None
        for row in await ledger.effects(EffectFilter.of_task(effect.task_id)):
            if row.effect_id == effect.effect_id:
                continue
            if any(_is_of(decision.command, event) for event in await ledger.audit(row.effect_id)):
                return (
                    f"this very command, or one under its request_id, was given for {row.effect_id} "
                    f"({row.step}). If {effect.effect_id} is meant, name it by effect_id, under another "
                    "request_id if you give one"
                )
        return None

    async def _second_person(self, asked: Asked) -> Asked:
        decision, row = asked.decision, asked.case.row
        sends = (decision.amended or decision.effect).input
        alone = approval.needs_second(decision.command, sends, asked.kind.policy.four_eyes)
        if alone is None:
            return asked
        trail = await self._serving.ledger.audit(row.effect_id)
        first = approval.first_person(decision.command, trail)
        return Asked(decision, asked.served, asked.case, first, alone if first is None else None)

    async def _blocked(self, asked: Asked) -> CommandAnswer | None:
        """The answer to a command that cannot be applied as things stand; None if it can."""
        row = asked.case.row
        acting = asked.command.model_copy(update={"operator": asked.acting})
        why = policy.refusal(acting, row, asked.kind)
        if why is None:
            return None
        if asked.command.request_id is not None and asked.command.version < row.version:
            for event in await self._serving.ledger.audit(row.effect_id):
                if _was_applied(asked.command, event):
                    answer = _applied(asked.command, row, asked.kind, "had been applied before")
                    confirmed = asked.command.action is Action.CONFIRM
                    freed = await self._freed(row) if confirmed else ()
                    return answer.model_copy(update={"freed": freed})
        return asked.refused(why)

    async def _verdict(self, asked: Asked) -> Verdict | str:
        command, row = asked.command, asked.case.row
        target = policy.leads_to(command.action, row.state)
        if target is None:
            return f"{command.action} is not possible while the effect is {row.state}"
        seen = await self._look(asked) if command.action in BELIEVED else None
        against = objection(command, asked.case, seen, asked.kind)
        insists = command.override and command.action not in policy.NEVER_INSISTED
        if against is not None and not insists:
            return against
        if command.action is Action.AMEND:
            return _amending(asked)
        receipt = _receipt(command, asked.case, seen) if command.action is Action.CONFIRM else None
        if receipt is None and command.action is Action.CONFIRM:
            return "confirm needs a receipt with the fact's external_id: the lookup did not find it"
        error_class = "denied" if command.action is Action.DENY else row.error_class
        return Verdict(
            target, _evidence(asked.command, asked.first), receipt=receipt, error_class=error_class
        )

    async def _look(self, asked: Asked) -> Finding | LookupDown | None:
        """What the outside says before a person is believed; None where it cannot be asked at all."""
        if asked.kind.semantics.lookup is None:
            return None
        row = asked.case.row
        call = Call.about(asked.decision.effect, row)
        try:
            return await unproved(self._serving.ledger, row.kind, await ask(asked.served, call))
        except LookupDown as error:
            return error

    async def _put_on_record(self, asked: Asked, why: str) -> CommandAnswer:
        """Remember the first person's command in the trail; the same person twice is still one."""
        row, command = asked.case.row, asked.command
        known = approval.requests(command, await self._serving.ledger.audit(row.effect_id))
        if not known:
            evidence = approval.request(command, why)
            await self._serving.ledger.note(row.effect_id, command.operator, evidence)
        message = (
            f"{command.action} is on record and not applied yet: {why}, so a second person must give the "
            f"same command for version {row.version}"
        )
        answer = asked.refused(why)
        return answer.model_copy(update={"pending": True, "message": message})

    async def _apply(self, asked: Asked, verdict: Verdict) -> CommandAnswer:
        ledger, command, row = self._serving.ledger, asked.command, asked.case.row
        if command.action is Action.AMEND:
            denial = None if row.state is State.CLEAR else _denial(asked)
            written = await ledger.amend(
                row.effect_id, command.version, denial, verdict, asked.acting
            )
        else:
            move = MOVE_OF[command.action]
            written = await ledger.decide(
                row.effect_id, command.version, move, verdict, asked.acting
            )
        answer = _answer(asked, written)
        if command.action is Action.CONFIRM and isinstance(written, Moved):
            return answer.model_copy(update={"freed": await self._freed(written.row)})
        return answer

    async def _freed(self, settled: EffectRow) -> tuple[Freed, ...]:
        """Effects in quarantine that had the same fact for a candidate, which is theirs no more."""
        which = EffectFilter(states=QUARANTINED, kind=settled.kind, limit=MOST_FREED)
        return tuple(
            Freed(task_id=row.task_id, effect_id=row.effect_id, version=row.version)
            for row in await self._serving.ledger.effects(which)
            if _is_candidate(settled.external_id, row)
        )

    async def _order_undo(self, decision: Decision) -> CommandAnswer:
        """The order stands in the trail of what is taken back; the undo is an effect of its own."""
        ledger, command = self._serving.ledger, decision.command
        case = await ledger.inspect(decision.effect.effect_id)
        kind = self._serving.kinds.get(decision.effect.kind)
        if case is None or kind is None:
            return refused(decision, "no worker here knows the effect, or its kind")
        why = policy.refusal(command, case.row, kind)
        if why is not None:
            return refused(decision, why, case.row, kind)
        trail = await ledger.audit(case.row.effect_id)
        if not any(_orders(command, event) for event in trail):
            await ledger.note(case.row.effect_id, command.operator, _evidence(command))
        what = f"ordered: {case.row.step} is taken back by an effect of its own"
        return _applied(command, case.row, kind, what)


def _is_candidate(external_id: str | None, row: EffectRow) -> bool:
    named = row.evidence.body.get("candidates")
    return isinstance(named, list) and external_id in named


def _is_of(command: Command, event: AuditEvent) -> bool:
    """Whether the event is what this very request came to."""
    said = event.evidence
    same = said.body.get("request_id") == command.request_id
    return same and command.request_id is not None and said.source == "person"


def _was_applied(command: Command, event: AuditEvent) -> bool:
    """Whether the event is this very request's, whose answer was lost."""
    return _is_of(command, event) and event.move == MOVE_OF[command.action]


def _orders(command: Command, event: AuditEvent) -> bool:
    """Whether the event is this very request's order, whose answer was lost."""
    return _is_of(command, event) and orders_undo(event)


def _receipt(command: Command, case: Case, seen: Finding | LookupDown | None) -> Receipt | None:
    """A fact that was found outranks what a person typed, unless they tie one of several."""
    if isinstance(seen, finding.Found):
        return seen.receipt
    return command.receipt or (case.late[-1].receipt if case.late else None)


def _amending(asked: Asked) -> Verdict | str:
    """The end of the old effect, linked with the new one, whose input its adapter can do."""
    amended = asked.decision.amended
    if amended is None:
        return "the task does not say which effect comes instead"
    if amended.input == asked.decision.effect.input:
        return "the new input is the old one; to have that done again, deny or retry"
    try:
        asked.served.adapter.prepare(amended)
    except AscertainError as error:
        return f"the new input is no input of {amended.kind}: {error}"
    except Exception as error:  # noqa: BLE001  # an adapter may raise anything; its text may be secret
        return f"the adapter of {amended.kind} failed to prepare it with {type(error).__qualname__}"
    evidence = _evidence(asked.command, asked.first, **policy.amendment(amended))
    if not policy.amendment(amended).items() <= evidence.body.items():
        size = len(keys.canonical(amended.input))
        return (
            f"the new input is {size} bytes, and with what was seen more than the ledger keeps of a decision "
            "(16 KiB); let it refer to what is large, or give less evidence. Else abandon this effect, which "
            "ends the task, and submit what is left to do under a new task_id"
        )
    return Verdict(State.SUPERSEDED, evidence, superseded_by=amended.effect_id)


def _denial(asked: Asked) -> Verdict:
    evidence = _evidence(asked.command, asked.first).model_copy(update={"rule": Action.DENY.value})
    return Verdict(State.CLEAR, evidence, error_class="denied")


def _evidence(command: Command, first: AuditEvent | None = None, **more: JsonValue) -> Evidence:
    body: JsonObject = {
        "seen": command.evidence,
        "override": command.override,
        "request_id": command.request_id,
        **more,
    }
    detail = f"{command.operator}: {command.reason}"
    if first is not None:
        body["persons"] = [first.actor, command.operator]
        detail = f"{detail} (as {first.evidence.detail.partition(' (waits ')[0]})"
    return Evidence(source="person", rule=command.action.value, detail=detail, body=body)


def _answer(asked: Asked, written: Written) -> CommandAnswer:
    match written:
        case Moved(row=row):
            return _applied(asked.command, row, asked.kind, f"applied: the effect is {row.state}")
        case Taken(row=row):
            look = f"`ascertain explain {written.task_id}` tells on which evidence"
            own = "confirm with the external_id of this effect's own fact, or deny it if there is none"
            return asked.refused(f"{written.why}; {look}; {own}", row)
        case _ if written.row is None:
            return asked.refused("the effect is not in the ledger")
        case _:
            stale = policy.refusal(asked.command, written.row, asked.kind)
            return asked.refused(stale or "it was moved at the same moment", written.row)


def _applied(command: Command, row: EffectRow, kind: Kind, what: str) -> CommandAnswer:
    return CommandAnswer(
        applied=True,
        message=f"{command.action} {what}",
        effect_id=row.effect_id,
        standing=policy.standing_of(row, kind),
    )


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
