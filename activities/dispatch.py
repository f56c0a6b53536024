"""Claim an effect and, if the claim is granted, make the one call that it permits."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, TypeGuard, assert_never

from opentelemetry import trace

from activities import amended, breaker, order
from activities.attempt import Attempt, after_write, persist
from activities.permit import steady
from ascertain import keys
from ascertain.contracts import claim, directive, outcome
from ascertain.contracts.breaker import BY
from ascertain.contracts.effect import FENCE, Evidence, State
from ascertain.errors import InvalidTask
from ascertain.policy import directive_for, says_of_effect
from ascertain.ports import FROZEN_MAX_BYTES
from ascertain.wait import AFTER, held_wait, retry_wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue

    from activities.serving import Served, Serving
    from ascertain.contracts.claim import ClaimAnswer, ClaimRequest
    from ascertain.contracts.directive import Directive
    from ascertain.contracts.effect import Effect, EffectRow
    from ascertain.ports import Adapter, Kind

UNPREPARED_PAUSE = timedelta(seconds=15)


async def dispatch(
    serving: Serving,
    served: Served,
    effect: Effect,
    *,
    resend: bool = False,
    on_progress: Callable[[JsonValue], None] | None = None,
) -> Directive:
    """Claim, call, record.

    Args:
        serving: The worker's ledger and name.
        served: The kind and its adapter.
        effect: What to do.
        resend: The claim is a question: same bytes, same key, while the key protects.
        on_progress: Where long work tells how far it is.

    Raises:
        LedgerDown: No claim was answered, so nothing was sent.
    """
    try:
        frozen = _prepared(served.adapter, effect)
    except Exception as error:  # noqa: BLE001  # nothing was sent, whatever it is
        case = await serving.ledger.inspect(effect.effect_id)
        if case is None and isinstance(error, InvalidTask):
            return await _refuse_unsent(serving, served.kind, effect, error)
        if case is None:
            return _unprepared(served.kind, error)
        frozen = case.row.frozen  # what was sent once counts, not what a later release makes of it
    request = request_for(serving, served.kind, effect, frozen, resend=resend)
    asked_at, answer = await _claim(serving, request)
    if _was_never_used(answer, request, served.kind):
        return await _clear_unsent(serving, served.kind, answer.row)
    if isinstance(answer, claim.Conflict):
        return await _conflict(serving, served.kind, effect, answer)
    if isinstance(answer, claim.Paused):
        await breaker.met(serving.breakers, serving.ledger, effect.partition, answer)
    if not isinstance(answer, claim.Granted):
        following = _without_grant(answer, served.kind)
        return await order.recalled(serving.ledger, effect.effect_id, following)
    attempt = Attempt(
        serving.ledger,
        served.kind,
        served.adapter,
        effect,
        answer,
        asked_at,
        serving.breakers,
        on_progress,
        interruptible=served.kind.queue is not None,
    )
    return await attempt.run()


async def put_in_doubt(serving: Serving, served: Served, effect: Effect) -> None:
    """Have an effect that a restored ledger may have forgotten begin in doubt, so that it is asked for.

    Where nothing was forgotten the claim may be granted: then it is given back, and nothing was sent.
    """
    request = request_for(serving, served.kind, effect, _prepared(served.adapter, effect))
    _, answer = await _claim(serving, request)
    if isinstance(answer, claim.Granted):
        evidence = Evidence(source="phase", rule="never_left", detail="its task was cancelled")
        unsent = outcome.NotDone(error_class="never_left", evidence=evidence)
        said = says_of_effect(answer.row, unsent)
        await persist(lambda: serving.ledger.record(answer.lease, said))


def _prepared(adapter: Adapter, effect: Effect) -> bytes:
    return keepable(adapter.prepare(effect))


def keepable(frozen: object) -> bytes:
    """What an adapter prepared, if the ledger can keep it."""
    if not isinstance(frozen, bytes):
        raise TypeError(f"prepare gave {type(frozen).__qualname__}, not bytes")
    if len(frozen) > FROZEN_MAX_BYTES:
        raise InvalidTask(
            f"the request is {len(frozen)} bytes; at most {FROZEN_MAX_BYTES} are kept"
        )
    return frozen


def _unprepared(kind: Kind, error: Exception) -> Directive:
    """A fault of the adapter, not of the task: it waits for a release that mends it. Text may be secret."""
    what = f"{type(error).__module__}.{type(error).__qualname__}"
    reason = f"the adapter of {kind.name} failed to prepare it with {what}; nothing was sent"
    return directive.RetryIn(delay=UNPREPARED_PAUSE, reason=reason)


async def _claim(serving: Serving, request: ClaimRequest) -> tuple[float, ClaimAnswer]:
    """Claim, and ask again if the answer was lost.

    The owner's name is unique to this call, so the ledger hands the very same claim out again, and
    only to us.
    """
    asked_at = steady()  # of the first try: it may be the one whose lease is running
    answer = await persist(lambda: serving.ledger.claim(request))
    if isinstance(answer, claim.Conflict) and await amended.remembered(serving, request.effect):
        answer = await persist(lambda: serving.ledger.claim(request))
    return asked_at, answer


def owner_of(serving: Serving) -> str:
    """A name that is unique to one activity's run, so that the ledger tells its claims from all others."""
    return f"{serving.identity}/{secrets.token_hex(6)}"


def request_for(  # each is a part of what is asked
    serving: Serving,
    kind: Kind,
    effect: Effect,
    frozen: bytes,
    *,
    resend: bool = False,
    owner: str | None = None,
) -> ClaimRequest:
    """What is asked of the ledger before a call of this kind, for an owner of its own if none is named."""
    span = trace.get_current_span().get_span_context()
    return claim.ClaimRequest(
        effect=effect,
        fingerprint=keys.fingerprint(effect.kind, effect.input),
        frozen=frozen,
        owner=owner or owner_of(serving),
        lease=kind.policy.lease,
        budget=kind.policy.budget,
        resend_for=kind.semantics.resend_for,
        resend=resend,
        trace_id=f"{span.trace_id:032x}" if span.is_valid else None,
    )


def _was_never_used(
    answer: ClaimAnswer, request: ClaimRequest, kind: Kind
) -> TypeGuard[claim.Unresolved]:
    """Whether this very call's own claim was fenced before its answer arrived, so that nothing was sent.

    A claim that asks by re-sending stays in doubt: its effect was so before. So does an effect that somebody
    moved after the fence: a person may have taken it over and done it by hand. And where it can be asked for,
    so does a later attempt: that the ones before it did nothing may have rested on a key.
    """
    if request.resend or not isinstance(answer, claim.Unresolved):
        return False
    row = answer.row
    if row.attempt > 1 and kind.semantics.lookup is not None:
        return False
    fenced = row.state is State.UNKNOWN and row.evidence.rule == FENCE
    return fenced and row.lease_owner == request.owner


async def _clear_unsent(serving: Serving, kind: Kind, row: EffectRow) -> Directive:
    why = "the claim's answer was lost until its lease was over, so nothing was sent under it"
    evidence = Evidence(source="phase", rule="never_left", detail=why)
    clear = claim.Verdict(
        State.CLEAR, evidence, error_class="never_left", retry_at_in=retry_wait(row, kind)
    )
    written = await persist(
        lambda: serving.ledger.converge(row.effect_id, row.version, clear, serving.identity)
    )
    return after_write(written, kind)


def _without_grant(answer: ClaimAnswer, kind: Kind) -> Directive:
    match answer:
        case claim.Settled(row=row) | claim.Refused(row=row) | claim.TakenOver(row=row):
            return directive_for(row, kind)
        case claim.Unresolved(row=row):
            return _ask_now(directive_for(row, kind))
        case claim.Busy(until=until, row=row):
            wait = max(until - row.now, timedelta(0)) + AFTER
            return directive.ReconcileIn(delay=wait, reason="another attempt is in flight")
        case claim.Conflict():
            return conflicting(answer)
        case claim.Paused():
            turn = answer.turn
            return directive.Held(
                partition=answer.partition,
                delay=_look_again_in(answer, kind) if turn is None else turn.wait + AFTER,
                turn_at=None if turn is None else turn.at,
                reason=answer.words,
            )
        case claim.Granted():
            msg = "a granted claim is for its attempt"
            raise ValueError(msg)
        case _:
            assert_never(answer)


async def _conflict(
    serving: Serving, kind: Kind, effect: Effect, answer: claim.Conflict
) -> Directive:
    if not await amended.in_hand(serving, effect):
        return conflicting(answer)
    why = (
        "what it was before it was amended was taken over after the ledger was restored; "
        "it waits until that is confirmed or abandoned, by whoever has it or takes it over again"
    )
    return directive.RetryIn(
        delay=kind.policy.ask_quarantined or kind.policy.held_recheck, reason=why
    )


def _look_again_in(gate: claim.Paused, kind: Kind) -> timedelta:
    """Nobody wakes a task that a rule holds: it is its own look that probes, and that finds the gate open."""
    if gate.by == BY:
        return kind.policy.held_recheck
    return held_wait(gate.closed_for, kind)


def other_content(row: EffectRow, effect: Effect) -> Directive | None:
    """The end of a task that asks for other content than stands under the effect's id; None: it does not."""
    offered = keys.fingerprint(effect.kind, effect.input)
    if row.fingerprint == offered:
        return None
    return conflicting(claim.Conflict(stored=row.fingerprint, offered=offered))


def conflicting(answer: claim.Conflict) -> Directive:
    """Other content stands under the effect's id."""
    stored, offered = answer.stored[:12], answer.offered[:12]
    why = f"the ledger holds other content under this id: {stored}, not {offered}"
    return directive.Conflicting(reason=why)


def _ask_now(following: Directive) -> Directive:
    """An unresolved effect that was met anew is asked for at once: waiting would prove nothing."""
    if isinstance(following, directive.ReconcileIn | directive.RetryIn):
        return directive.ReconcileIn(
            delay=timedelta(0), reason=following.reason, standing=following.standing
        )
    return following


async def _refuse_unsent(
    serving: Serving, kind: Kind, effect: Effect, error: InvalidTask
) -> Directive:
    """Input that the adapter cannot turn into a request is refused on the record, and never sent."""
    answer = await serving.ledger.claim(request_for(serving, kind, effect, b""))
    if not isinstance(answer, claim.Granted):
        return _without_grant(answer, kind)
    evidence = Evidence(source="rule", rule="invalid_input", detail=str(error))
    refused = outcome.Refused(error_class="invalid_input", evidence=evidence)
    written = await persist(lambda: serving.ledger.record(answer.lease, refused))
    return after_write(written, kind)
