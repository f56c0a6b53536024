"""What is true of the fact outside, and why it was or is not done again. Pure.

The row says in which state an effect stands; what that means depends on its trail (an effect that used up its
budget may provably not exist) and on its task's other effects (one of them may have taken it back).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ascertain.cli import wording
from ascertain.cli.text import plain
from ascertain.contracts.effect import State
from ascertain.contracts.epoch import MAY_BE_FORGOTTEN, RESTORED
from ascertain.machine import Move

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ascertain.cli.known import Known, KnownEffect
    from ascertain.contracts.effect import AuditEvent, EffectRow

_STATES: Final[Mapping[State, str]] = {
    State.REFUSED: "The outside said no for good. Nothing happened.",
    State.ABANDONED: "It was given up: by a person, or because its task was cancelled or taken back.",
    State.SUPERSEDED: "It was replaced by a new input; this one is never done.",
    State.CLEAR: "It provably does not exist outside, so it may be done.",
    State.UNKNOWN: (
        "It may or may not exist outside. Until that is proved, only asking is allowed."
    ),
    State.QUARANTINED: (
        "It is not proved whether it exists outside, and automation has stopped: a person decides."
    ),
}
# Causes of a quarantine that say something else of the fact.
_CAUSES: Final[Mapping[str, str]] = {
    "several": (
        "Several facts outside carry its id, and automation has stopped: a person says which is its own."
    ),
    "differs": (
        "The fact outside that carries its id is not what was asked for, and automation has stopped: a "
        "person decides."
    ),
    "fact_taken": (
        "The fact that was found proves another effect already, and automation has stopped: a person decides."
    ),
}
_USED_UP: Final = (
    "It provably does not exist outside, and its budget of attempts is used up: a person decides."
)
_DOUBTFUL: Final = frozenset(
    {State.UNKNOWN, State.ACCEPTED, State.QUARANTINED, State.TAKEN_OVER, State.IN_FLIGHT}
)


def sentence(known: Known, effect: KnownEffect) -> str:
    """One sentence: what is true of the fact outside."""
    row = effect.row
    if row.state is State.SETTLED:
        return _settled(row, known.undo_of(effect))
    if row.state is State.QUARANTINED and effect.proven_absent:
        return _USED_UP
    return of_row(row)


def of_row(row: EffectRow) -> str:
    """The same, as far as the row alone can tell."""
    match row.state:
        case State.SETTLED:
            return _settled(row, None)
        case State.TAKEN_OVER:
            by = plain(row.taken_by or "A person")
            return f"{by} has taken it over. Automation does nothing now."
        case State.ACCEPTED:
            job = f" as job {plain(row.job_id)}" if row.job_id else ""
            return (
                f"The outside took it{job} and works on it. It is never sent again, only asked for."
            )
        case State.IN_FLIGHT:
            return _in_flight(row)
        case State.SUPERSEDED if row.superseded_by is not None:
            return (
                f"Its input was amended: {row.superseded_by} is done instead, and this one never."
            )
        case State.REFUSED if row.error_class == wording.UNSENDABLE:
            return (
                "Its input cannot be made into a request. It was refused before anything was sent."
            )
        case State.CLEAR if row.error_class == wording.DENIED:
            return "A person stated that it does not exist outside, so it may be done."
        case State.QUARANTINED:
            return _CAUSES.get(row.error_class or "", _STATES[State.QUARANTINED])
        case state:
            return _STATES[state]


def _settled(row: EffectRow, undo: KnownEffect | None) -> str:
    fact = plain(row.external_id or "an unnamed fact")
    if undo is None:
        return f"It exists outside as {fact}."
    match undo.row.state:
        case State.SETTLED:
            how = plain(undo.row.external_id or "an unnamed fact")
            return f"It existed outside as {fact} and was taken back: step {undo.row.step}, {how}."
        case State.REFUSED | State.ABANDONED as state:
            why = "refused" if state is State.REFUSED else "given up"
            return f"It exists outside as {fact}. Taking it back was {why}: step {undo.row.step}."
        case state:
            return f"It exists outside as {fact}. It is being taken back: step {undo.row.step} is {state}."


def _in_flight(row: EffectRow) -> str:
    if row.lease_owner == RESTORED:
        return (
            f"{MAY_BE_FORGOTTEN.capitalize()}. It may or may not exist outside, and is asked for."
        )
    if row.now < row.lease_until:
        until = wording.clock(row.lease_until)
        return f"An attempt may be on its way outside right now; it may send until {until}."
    return "An attempt began and has not reported back. It may or may not have happened."


def attempts(effect: KnownEffect) -> str:
    """How many attempts, and what of them is none or does not count."""
    row, forgotten = effect.row, _forgotten(effect)
    counted = row.attempt - row.budget_from
    told = str(row.attempt)
    if forgotten:
        told += f", {forgotten} only because of a restore"
    if effect.open and counted != row.attempt - forgotten:
        told += f", {counted} of them in its budget"
    return told


def repeats(effect: KnownEffect) -> Iterable[str]:
    """Why it was repeated, or why it is not."""
    for before, claim in _repeated(effect.trail):
        if claim.move == Move.RESEND:
            yield (
                f"Attempt {claim.attempt} was no second try: the outside recognises the key, so sending the "
                "same bytes again asks what became of the first."
            )
        else:
            yield wording.sentence(*_permitted_by(before, claim))
    row = effect.row
    if row.state in _DOUBTFUL:
        yield f"It is not done again, because {_in_the_way(effect)}"
    elif row.attempt == 1 and row.state is State.SETTLED:
        yield (
            f"Nothing was sent here: {MAY_BE_FORGOTTEN}, and it was found."
            if _forgotten(effect)
            else "It was sent once and never repeated."
        )


def _in_the_way(effect: KnownEffect) -> str:
    row = effect.row
    if effect.proven_absent:
        who = (
            f"{plain(row.taken_by)} has it" if row.taken_by else "its budget of attempts is used up"
        )
        return f"{who}; each of its attempts provably did nothing."
    if row.lease_owner == RESTORED:
        return f"{MAY_BE_FORGOTTEN}. That time has passed is no proof."
    if row.state is State.ACCEPTED:
        return f"the outside took attempt {row.attempt}. That time has passed is no proof that it failed."
    return f"nothing proves that attempt {row.attempt} did not happen. That time has passed is no proof."


def _permitted_by(before: AuditEvent, claim: AuditEvent) -> tuple[str, str]:
    said = f"Attempt {claim.attempt} was allowed because"
    if before.move == Move.DENY:
        return f"{said} {before.actor} stated that the one before did not happen", ""
    return f"{said} the one before provably did nothing", before.evidence.detail


def _repeated(trail: Sequence[AuditEvent]) -> Iterable[tuple[AuditEvent, AuditEvent]]:
    """Each claim after the first, with the last event before it that moved the effect."""
    last: AuditEvent | None = None
    for told in trail:
        if told.move in {wording.REFUSED_WRITE, wording.NOTE, Move.RENEW}:
            continue
        granted = told.move in {Move.CLAIM, Move.RESEND} and not _is_of_restore(told)
        if granted and last is not None:
            yield last, told
        last = told


def _forgotten(effect: KnownEffect) -> int:
    """How many of its attempts stand for what a restored ledger may have forgotten."""
    return sum(1 for told in effect.trail if _is_of_restore(told))


def _is_of_restore(told: AuditEvent) -> bool:
    """Whether it is the claim that stands for what a restored ledger may have forgotten."""
    return told.move == Move.CLAIM and told.evidence.rule == RESTORED
