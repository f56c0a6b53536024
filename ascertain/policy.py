"""What to do next about an effect: pure functions of its row, the semantics and the policy.

Time is the ledger's clock, ``row.now``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from ascertain import keys
from ascertain.contracts import directive, finding, outcome
from ascertain.contracts.claim import Verdict
from ascertain.contracts.command import Action
from ascertain.contracts.effect import ABSENT_KEYED, BUDGET, TERMINAL, EffectRow, Evidence, State
from ascertain.contracts.epoch import MAY_BE_FORGOTTEN, RESTORED
from ascertain.machine import Move, next_state
from ascertain.wait import AFTER, NO_WAIT, ask_wait, conclusive_at, let_go, quiet_at, retry_wait

if TYPE_CHECKING:
    from datetime import datetime

    from ascertain.contracts.command import Command
    from ascertain.contracts.directive import Directive, Standing
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.contracts.value import JsonObject
    from ascertain.ports import Kind

# A person who gives one of these goes on to act, or lets others act, as if nothing were under way.
HANDS_ON = frozenset({Action.TAKE, Action.DENY, Action.AMEND, Action.ABANDON})
# Nothing but proof lets another input be sent, so nobody can insist on it.
NEVER_INSISTED = frozenset({Action.AMEND, Action.UNDO})
# Whether there is an undo says the task and no effect: `TaskStatus.undoable`.
_BY_STATE = tuple(action for action in Action if action is not Action.UNDO)
_FOR_A_PERSON = frozenset({State.QUARANTINED, State.TAKEN_OVER})

MOVE_OF: dict[Action, Move] = {
    Action.TAKE: Move.TAKE,
    Action.CONFIRM: Move.CONFIRM,
    Action.DENY: Move.DENY,
    Action.RETRY: Move.RETRY,
    Action.AMEND: Move.SUPERSEDE,
    Action.ABANDON: Move.ABANDON,
    Action.RELEASE: Move.RELEASE,
}


@dataclass(frozen=True, slots=True)
class Lookup:
    """Ask outside."""


@dataclass(frozen=True, slots=True)
class Resend:
    """Send the same bytes under the same key: the key still protects, so it counts as asking."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be asked now."""


@dataclass(frozen=True, slots=True)
class Give:
    """Nothing can be asked at all: move to this verdict."""

    verdict: Verdict


Question = Lookup | Resend | Wait | Give


@dataclass(frozen=True, slots=True)
class StillOpen:
    """The finding proves nothing yet."""

    error_class: str
    reason: str
    slower: bool = False


def key_ends(row: EffectRow, kind: Kind) -> datetime | None:
    """Until when a same-key same-bytes re-send counts as asking; None if it never does.

    As was declared when it was first sent, or less, if less is declared by now: a promise that was too long
    reaches what has been waiting.
    """
    declared = kind.semantics.resend_for
    if row.resend_until is None or declared is None:
        return None
    return row.first_sent_at + min(row.resend_until - row.first_sent_at, declared)


def key_protects(row: EffectRow, kind: Kind) -> bool:
    """Whether a claim that began now would end while the outside still honours the key."""
    ends = key_ends(row, kind)
    return ends is not None and row.now + kind.policy.lease <= ends


def _others_may_have_sent(row: EffectRow) -> bool:
    """Whether more than one call, a person's by hand among them, may have left for an open effect."""
    open_yet = row.state in {State.UNKNOWN, State.ACCEPTED}
    return open_yet and (row.attempt > 1 or let_go(row))


def next_question(row: EffectRow, kind: Kind) -> Question:
    """How to find out about an ACCEPTED, UNKNOWN or QUARANTINED effect."""
    if kind.semantics.lookup is not None:
        return Lookup()
    if row.state is State.QUARANTINED:
        return Wait()
    if row.state is State.ACCEPTED:
        return Give(_quarantine("accepted_without_lookup", "accepted, but it cannot be asked for"))
    ends = key_ends(row, kind)
    if ends is None:
        why = "it may have happened, the outside cannot be asked and no key protects a re-send"
        return Give(_of_restore(row, _quarantine("no_lookup", why)))
    if not key_protects(row, kind):
        why = f"the key no longer protects since {ends:%Y-%m-%d %H:%M:%S} UTC"
        return Give(_of_restore(row, _quarantine("key_expired", why)))
    return Resend()


def _of_restore(row: EffectRow, verdict: Verdict) -> Verdict:
    """The same with its first cause, where no attempt is in doubt but what a restored ledger forgot."""
    if row.lease_owner != RESTORED:
        return verdict
    return _quarantine(RESTORED, f"{MAY_BE_FORGOTTEN}: {verdict.evidence.detail}")


def stranded(row: EffectRow, kind: Kind) -> Verdict | None:
    """For a CLEAR effect whose proof of absence rested on a key that protects no more: a person looks."""
    if row.state is not State.CLEAR or row.evidence.rule != ABSENT_KEYED:
        return None
    if key_protects(row, kind):
        return None
    why = "it was taken for absent because its key protects a re-send, and the key does so no more"
    return _quarantine("key_expired", why)


def judge(row: EffectRow, found: Finding, kind: Kind) -> Verdict | StillOpen:
    """What a finding makes of an ACCEPTED, UNKNOWN or QUARANTINED effect."""
    match found:
        case finding.Found():
            looked = _looked("found", "found by lookup")
            return Verdict(State.SETTLED, looked, receipt=found.receipt)
        case finding.Refused():
            if row.state is State.QUARANTINED:
                return StillOpen(found.error_class, f"the outside says refused: {found.detail}")
            if _others_may_have_sent(row) and row.now < conclusive_at(row, kind):
                return StillOpen(found.error_class, "the refusal may be an earlier attempt's")
            looked = _looked("found_refused", found.detail)
            return Verdict(State.REFUSED, looked, error_class=found.error_class)
        case finding.Pending():
            return _pending(row, found)
        case finding.Several():
            ids = list(found.external_ids)
            why = f"several facts carry this id: {', '.join(ids)}"
            return _stop(row, "several", why, {"external_ids": list(ids)})
        case finding.Differs():
            why = (
                f"the fact {found.external_id} carries this id but differs from what was asked for"
            )
            seen: JsonObject = {"expected": found.expected, "found": found.found}
            return _stop(row, "differs", why, {"external_id": found.external_id, **seen})
        case finding.Unknowable():
            return _unknowable(row, found, kind)
        case finding.Absent():
            return _absent(row, kind)
        case _:
            assert_never(found)


def _pending(row: EffectRow, found: finding.Pending) -> Verdict | StillOpen:
    still = StillOpen("pending", found.detail or "accepted, still running")
    job_id = found.job_id or row.job_id
    if row.state is not State.UNKNOWN or job_id is None:
        return still
    looked = _looked("pending", still.reason)
    return Verdict(State.ACCEPTED, looked, error_class="pending", job_id=job_id)


def _unknowable(row: EffectRow, found: finding.Unknowable, kind: Kind) -> Verdict | StillOpen:
    if kind.semantics.harmless and row.state is State.UNKNOWN:
        return _clear(row, kind, "harmless", "it cannot be told, and a duplicate is harmless")
    why = found.detail or "the outside's answer cannot tell"
    return _stop(row, "unknowable", why, {"candidates": list(found.candidates)})


def _absent(row: EffectRow, kind: Kind) -> Verdict | StillOpen:
    conclusive = conclusive_at(row, kind)
    if row.now < conclusive:
        why = f"not visible yet; an empty answer is conclusive from {conclusive:%H:%M:%S} UTC"
        if row.state is State.QUARANTINED and row.evidence.rule == BUDGET:
            # Each of its attempts is known to have done nothing: no horizon is awaited.
            why = "the outside does not show it"
        return StillOpen("not_visible_yet", why)
    if row.state is State.QUARANTINED:
        return StillOpen("absent", "the outside does not have it")
    if row.state is State.ACCEPTED:
        why = f"the outside took it as {row.job_id} and does not know it now"
        return _stop(row, "accepted_then_absent", why, {})
    semantics = kind.semantics
    if semantics.lag == NO_WAIT:
        return _clear(row, kind, "absent", "absent in a read-after-write lookup past the horizon")
    if key_protects(row, kind):
        return _clear(
            row, kind, ABSENT_KEYED, "absent past the horizon; the key protects a re-send"
        )
    if kind.policy.resend_unprotected:
        why = "absent past the horizon; the deployment's resend_unprotected allows a re-send"
        return _clear(row, kind, "resend_unprotected", why)
    why = "absent past the declared lag, but no key protects a re-send"
    return _stop(row, "absent_unprotected", why, {})


def _clear(row: EffectRow, kind: Kind, rule: str, why: str) -> Verdict:
    wait = retry_wait(row, kind)
    return Verdict(State.CLEAR, _looked(rule, why), error_class=rule, retry_at_in=wait)


def _looked(rule: str, detail: str) -> Evidence:
    return Evidence(source="lookup", rule=rule, detail=detail)


def _quarantine(rule: str, why: str) -> Verdict:
    return Verdict(
        State.QUARANTINED, Evidence(source="rule", rule=rule, detail=why), error_class=rule
    )


def _stop(row: EffectRow, rule: str, why: str, body: JsonObject) -> Verdict | StillOpen:
    if row.state is State.QUARANTINED:
        return StillOpen(rule, why)
    evidence = Evidence(source="lookup", rule=rule, detail=why, body=body)
    return Verdict(State.QUARANTINED, evidence, error_class=rule)


def says_of_effect(row: EffectRow, came_to: Outcome) -> Outcome:
    """What an attempt's outcome says of the effect as a whole.

    A re-send is a question: that *this* call did nothing, or was turned away before its key was looked
    at, says nothing of the earlier call whose answer is lost. Where that one counts as absent because the
    key protects, it does so no longer than before.
    """
    if row.evidence.rule == ABSENT_KEYED and isinstance(came_to, outcome.NotDone):
        keyed = came_to.evidence.model_copy(update={"rule": ABSENT_KEYED})
        return came_to.model_copy(update={"evidence": keyed})
    if row.evidence.rule != Move.RESEND or not isinstance(
        came_to, outcome.NotDone | outcome.Refused
    ):
        return came_to
    return outcome.Unknown(error_class=came_to.error_class, evidence=came_to.evidence)


def directive_for(
    row: EffectRow, kind: Kind, *, slower: bool = False, why: str = "", waiting: int = 0
) -> Directive:
    """The next step of a task whose effect stands as ``row``: the same, whoever asks.

    Args:
        row: The effect as the ledger holds it now.
        kind: Semantics and policy as this deployment has them now.
        slower: The outside could not be asked; wait longer before the next question.
        why: What the last question came to, where that moved nothing.
        waiting: How many wait for an outside that could not be asked.
    """
    reason = reason_of(row, why)
    standing = standing_of(row, kind, why)
    match row.state:
        case State.SETTLED:
            if row.receipt is None:
                msg = f"{row.effect_id} is SETTLED without a receipt"
                raise ValueError(msg)
            return directive.Done(receipt=row.receipt)
        case State.SUPERSEDED if row.superseded_by is not None:
            return superseded(row, row.superseded_by)
        case State.REFUSED | State.ABANDONED | State.SUPERSEDED:
            return directive.Refused(state=row.state, reason=reason, standing=standing)
        case State.CLEAR:
            due = (row.retry_at or row.now) - row.now
            wait = due + AFTER if due > NO_WAIT else NO_WAIT
            return directive.RetryIn(delay=wait, reason=reason, standing=standing)
        case State.IN_FLIGHT:
            left = max(row.lease_until - row.now, NO_WAIT) + AFTER
            return directive.ReconcileIn(delay=left, reason=reason, standing=standing)
        case State.UNKNOWN | State.ACCEPTED:
            wait = ask_wait(row, kind, slower=slower, waiting=waiting)
            return directive.ReconcileIn(delay=wait, reason=reason, standing=standing)
        case State.QUARANTINED:
            # Also without a lookup: a look into the ledger reads what a late worker has brought.
            again = kind.policy.ask_quarantined
            return directive.Quarantined(ask_again_in=again, reason=reason, standing=standing)
        case State.TAKEN_OVER:
            by = row.taken_by or "somebody"
            # A decision whose answer was lost with its worker wakes nobody: the ledger knows it.
            again = kind.policy.ask_quarantined
            return directive.TakenOver(by=by, ask_again_in=again, reason=reason, standing=standing)
        case _:
            assert_never(row.state)


def amendment(effect: Effect) -> JsonObject:
    """What the evidence of SUPERSEDED keeps of the effect that comes instead: all that is new in it.

    As canonical text, which no database makes other numbers of.
    """
    return {"revision": effect.revision, "input": keys.canonical(effect.input).decode()}


def amended_input(row: EffectRow) -> JsonObject | None:
    """The input of what comes instead of an effect that a person had replaced; None: it was not."""
    told = row.evidence.body.get("input")
    if row.state is not State.SUPERSEDED or not isinstance(told, str):
        return None
    given: JsonObject = json.loads(told)
    return given


def superseded(row: EffectRow, by: str) -> Directive:
    """What a task goes on with whose effect a person replaced by another, ``by``."""
    return directive.Superseded.model_validate(
        {
            "by": by,
            "revision": row.evidence.body["revision"],
            "input": amended_input(row),
            "reason": row.evidence.detail,
        }
    )


def standing_of(row: EffectRow, kind: Kind, why: str = "") -> Standing:
    """What a person is told of the effect."""
    in_doubt = row.state in {State.UNKNOWN, State.ACCEPTED, State.IN_FLIGHT}
    return directive.Standing(
        state=row.state,
        version=row.version,
        attempt=row.attempt,
        lease_version=row.lease_version,
        error_class=row.error_class,
        external_id=row.external_id,
        job_id=row.job_id,
        reason=reason_of(row, why),
        conclusive_at=conclusive_at(row, kind) if in_doubt and kind.semantics.lookup else None,
        act_from=quiet_at(row, kind) if _may_still_land(row, kind) else None,
        safe_next=tuple(act.value for act in _BY_STATE if leads_to(act, row.state)),
        askable=kind.semantics.lookup is not None,
    )


def reason_of(row: EffectRow, why: str) -> str:
    """Why it stands as it does; for a person the cause comes first, and then what the last look came to.

    With its time, for such a look may be the last one for long.
    """
    cause = row.evidence.detail
    if row.state not in _FOR_A_PERSON or why == cause or not (why and cause):
        return why or cause
    return f"{cause}; last look at {row.now:%Y-%m-%d %H:%M:%S} UTC: {why}"


def leads_to(action: Action, state: State) -> State | None:
    """Where a person's command leads from a state; None if nowhere.

    An amendment includes the statement that there is nothing, where that is not proven yet. What an undo
    takes back has existed and stays SETTLED: the undo is an effect of its own.
    """
    if action is Action.UNDO:
        return state if state is State.SETTLED else None
    if action is Action.AMEND:
        denied = next_state(state, Move.DENY) or state
        return next_state(denied, Move.SUPERSEDE)
    return next_state(state, MOVE_OF[action])


def allowed(action: Action, row: EffectRow, kind: Kind) -> str | None:
    """None if a person may do this now; otherwise one sentence that says what stands in the way."""
    if leads_to(action, row.state) is None:
        if row.state is State.IN_FLIGHT:
            until = f"{row.lease_until:%H:%M:%S} UTC"
            return f"an attempt is in flight, do not act yet; its permit ends at {until}"
        able = ", ".join(each for each in _BY_STATE if leads_to(each, row.state)) or "nothing"
        if leads_to(Action.UNDO, row.state):
            able = "undo, if its step declares one"
        return f"{action} is not possible while the effect is {row.state}; possible is {able}"
    if action in HANDS_ON and _may_still_land(row, kind):
        until = f"{quiet_at(row, kind):%H:%M:%S} UTC"
        return f"an attempt is in flight, do not act yet; what was sent can still take effect until {until}"
    return None


def _may_still_land(row: EffectRow, kind: Kind) -> bool:
    unsettled = row.state not in TERMINAL | {State.CLEAR}
    return unsettled and row.now < quiet_at(row, kind)


def refusal(command: Command, row: EffectRow, kind: Kind) -> str | None:
    """Why a command is not applied to the effect as it stands; None if nothing stands in its way."""
    if command.version != row.version:
        return (
            f"the effect has moved on: version {row.version}, now {row.state} "
            f"({row.evidence.detail or row.evidence.rule}); you looked at version {command.version}"
        )
    if row.state is State.TAKEN_OVER and row.taken_by != command.operator:
        owner = row.taken_by
        return (
            f"{owner} has taken it over, and it moves in that name alone: ask {owner} to release it; if "
            f"nobody of that name can be reached, release it as operator {owner} and say who you are in the "
            "reason"
        )
    blocked = allowed(command.action, row, kind)
    insists = command.override and command.action not in NEVER_INSISTED
    return None if insists and leads_to(command.action, row.state) else blocked
