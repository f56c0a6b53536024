"""Plain words for states, audit events and times. Pure; who reads it may be new, and tired."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from ascertain.cli.text import plain
from ascertain.contracts.command import Action
from ascertain.contracts.effect import BUDGET
from ascertain.contracts.epoch import RESTORED
from ascertain.machine import Move

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ascertain.contracts.effect import AuditEvent, EffectRow
    from ascertain.contracts.value import JsonObject

REFUSED_WRITE: Final = "refused_write"
NOTE: Final = "note"
# The error classes of an input that no request can be made of, and of a person's word against a fact.
UNSENDABLE: Final = "invalid_input"
DENIED: Final = "denied"
# A key that outlives every task is called endless.
ENDLESS: Final = timedelta(days=36_500)

# What the evidence of a finding holds for a person to compare, and what it is called.
_COMPARED: Final = {
    "expected": "asked for",
    "found": "found",
    "candidates": "candidates",
    "seen": "evidence",
}
_SHOWN: Final = 500


def moment(at: datetime) -> str:
    """A time, always with its zone."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(at: datetime) -> str:
    """A time of a day that is known already."""
    return f"{at.astimezone(UTC):%H:%M:%S} UTC"


def age(length: timedelta) -> str:
    """A length of time in one unit, rounded down."""
    length = max(length, timedelta(0))
    if length >= timedelta(days=2):
        return f"{length // timedelta(days=1)} days"
    if length >= timedelta(hours=2):
        return f"{length // timedelta(hours=1)} hours"
    if length >= timedelta(minutes=2):
        return f"{length // timedelta(minutes=1)} minutes"
    seconds = length // timedelta(seconds=1)
    return "1 second" if seconds == 1 else f"{seconds} seconds"


def content(given: JsonObject | None) -> str:
    """An input as JSON, shortened for people; empty if it is not known."""
    if given is None:
        return ""
    text = json.dumps(given, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ... (`show --json` has it whole)"


def sentence(*parts: str) -> str:
    """Parts with a colon between them and one full stop; empty parts are left out."""
    text = ": ".join(part.strip().rstrip(".") for part in map(plain, parts) if part)
    return f"{text}." if text else ""


def worker(actor: str) -> str:
    """The process in an actor, without the part that names its one claim."""
    return plain(actor.split("/", 1)[0])


def key_life(row: EffectRow, until: datetime) -> str:
    """How old the outside's idempotency key is, against how long it protects."""
    old = age(row.now - row.first_sent_at)
    if until - row.now > ENDLESS:
        return f"Its key is {old} old and protects a re-send for ever."
    if row.now < until:
        return f"Its key is {old} old and protects a re-send until {moment(until)}."
    return f"Its key is {old} old and no longer protects a re-send, since {moment(until)}."


def seen(told: AuditEvent) -> list[str]:
    """What was found outside, where a person has to compare it."""
    body = told.evidence.body
    return [
        f"{name}: {plain(json.dumps(body[key], ensure_ascii=False))[:_SHOWN]}"
        for key, name in _COMPARED.items()
        if body.get(key)
    ]


def event(told: AuditEvent) -> str:
    """One sentence: what an event of the audit trail says."""
    words = MOVES.get(told.move)
    return words(told) if words is not None else sentence(told.move, told.evidence.detail)


def _claim(told: AuditEvent) -> str:
    if told.evidence.rule == RESTORED:
        return sentence(
            f"It counts as attempt {told.attempt}, although nothing was sent now",
            told.evidence.detail,
        )
    return (
        f"Attempt {told.attempt} was permitted to {worker(told.actor)}, and what it sends was stored, "
        "before anything could leave."
    )


def _resend(told: AuditEvent) -> str:
    return (
        f"Attempt {told.attempt} was permitted to {worker(told.actor)}: the same bytes under the same key, "
        "which counts as asking while the key protects."
    )


def _renew(told: AuditEvent) -> str:
    return f"Attempt {told.attempt} was still at work, and its permit to send was lengthened."


def _settle(told: AuditEvent) -> str:
    return sentence(f"Attempt {told.attempt} got proof: it exists{_as(told)}", told.evidence.detail)


def _refuse(told: AuditEvent) -> str:
    if told.evidence.rule == UNSENDABLE:
        said = f"Attempt {told.attempt} sent nothing, because no request can be made of the input"
        return sentence(said, told.evidence.detail)
    said = f"Attempt {told.attempt} was refused for good and nothing happened"
    return sentence(said, told.evidence.detail)


def _accept(told: AuditEvent) -> str:
    said = f"Attempt {told.attempt} was taken: the outside works on it"
    return sentence(said, told.evidence.detail)


def _clear(told: AuditEvent) -> str:
    said = f"Attempt {told.attempt} provably did nothing"
    if told.evidence.source == "phase":
        said = f"Attempt {told.attempt} provably did nothing, because it never left us"
    return sentence(said, told.evidence.detail)


def _doubt(told: AuditEvent) -> str:
    said = f"Attempt {told.attempt} may or may not have happened"
    return sentence(said, told.evidence.detail)


def _fence(told: AuditEvent) -> str:
    if told.evidence.rule == RESTORED:
        return "Whether it was done before the restore is not known here, so it is asked for."
    return (
        f"Attempt {told.attempt} never reported back (its worker died, froze or was cut off), so its permit "
        "was withdrawn. It may or may not have happened."
    )


def _find(told: AuditEvent) -> str:
    if told.evidence.source == "late_write":
        return sentence(f"A late answer was found: it exists{_as(told)}", told.evidence.detail)
    return f"The outside was asked and has it{_as(told)}."


def _find_refused(told: AuditEvent) -> str:
    said = "The outside was asked and says that it failed for good"
    return sentence(said, told.evidence.detail)


def _find_pending(told: AuditEvent) -> str:
    return sentence("The outside was asked and is still working on it", told.evidence.detail)


def _find_absent(told: AuditEvent) -> str:
    return sentence("The outside was asked and provably does not have it", told.evidence.detail)


def _quarantine(told: AuditEvent) -> str:
    budget = told.evidence.body.get("budget")
    if told.evidence.rule == BUDGET and budget is not None:
        said = f"Automation stopped after attempt {told.attempt}"
        return f"{said}, the last that its budget of {budget} allowed."
    return sentence("Automation stopped", told.evidence.detail)


def _as(told: AuditEvent) -> str:
    return f" as {plain(told.receipt.external_id)}" if told.receipt is not None else ""


def _person(what: str) -> Callable[[AuditEvent], str]:
    def words(told: AuditEvent) -> str:
        # The detail of a person's evidence begins with their name, which the sentence says already.
        why = told.evidence.detail.removeprefix(f"{told.actor}: ")
        insisted = (
            " against what the outside could show" if told.evidence.body.get("override") else ""
        )
        return sentence(f"{plain(told.actor)} {what}{_as(told)}{insisted}", why)

    return words


def _refused_write(told: AuditEvent) -> str:
    said = (
        f"A late write of attempt {told.attempt} by {worker(told.actor)} was refused, because its permit "
        f"(number {told.lease_version}) was not the current one, and kept as evidence"
    )
    fact = f"it knew of {plain(told.receipt.external_id)}" if told.receipt is not None else ""
    return sentence(said, fact or told.evidence.detail)


def _withdraw(_told: AuditEvent) -> str:
    return "Its task was cancelled or taken back before it was done, so it is not done any more."


def _note(told: AuditEvent) -> str:
    if told.evidence.source == "person":
        undo = told.evidence.rule == Action.UNDO
        said = f"{plain(told.actor)} {'ordered that it be taken back' if undo else 'said'}"
        return sentence(said, told.evidence.detail.removeprefix(f"{told.actor}: "))
    return sentence(f"{worker(told.actor)} noted", told.evidence.detail)


MOVES: Final[Mapping[str, Callable[[AuditEvent], str]]] = {
    Move.CLAIM: _claim,
    Move.RESEND: _resend,
    Move.RENEW: _renew,
    Move.SETTLE: _settle,
    Move.REFUSE: _refuse,
    Move.ACCEPT: _accept,
    Move.CLEAR: _clear,
    Move.DOUBT: _doubt,
    Move.FENCE: _fence,
    Move.FIND: _find,
    Move.FIND_REFUSED: _find_refused,
    Move.FIND_PENDING: _find_pending,
    Move.FIND_ABSENT: _find_absent,
    Move.QUARANTINE: _quarantine,
    Move.TAKE: _person("took it over"),
    Move.CONFIRM: _person("confirmed that it exists"),
    Move.DENY: _person("stated that it does not exist"),
    Move.RETRY: _person("ordered automation to ask again and go on"),
    Move.ABANDON: _person("gave it up"),
    Move.RELEASE: _person("handed it back to automation"),
    Move.SUPERSEDE: _person("replaced its input"),
    Move.WITHDRAW: _withdraw,
    REFUSED_WRITE: _refused_write,
    NOTE: _note,
}
