"""What evidence says against a person's command: pure, and nothing forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ascertain.contracts import finding
from ascertain.contracts.command import Action
from ascertain.contracts.effect import ABSENT_KEYED, State
from ascertain.errors import LookupDown
from ascertain.wait import conclusive_at

if TYPE_CHECKING:
    from ascertain.contracts.command import Command
    from ascertain.contracts.effect import EffectRow
    from ascertain.contracts.finding import Finding
    from ascertain.ports import Case, Kind

PENDING = "the outside is still working on it; ask again later"
ABSENT_ONLY_BY_KEY = (
    "it counts as absent only because its key protects a re-send, and a new input has a new key; "
    "take it over, look, and amend it then"
)
# What these say is that there is nothing; evidence of the contrary stands against them.
NOTHING_THERE = frozenset({Action.DENY, Action.AMEND, Action.ABANDON})
# These contradict even the proof that it never left.
CONTRADICTING = (finding.Found, finding.Pending, finding.Several, finding.Differs)


def objection(
    command: Command, case: Case, seen: Finding | LookupDown | None, kind: Kind
) -> str | None:
    """What speaks against a command: a late answer, or what the outside says when it is asked.

    Args:
        command: What the person says.
        case: The effect and the receipts that came too late to be recorded.
        seen: The lookup's finding; LookupDown if it could not be made; None if nobody was to be asked.
        kind: Tells when an empty lookup is conclusive.

    Returns:
        One sentence, or None. An override sets it aside, on the record.
    """
    # A late receipt whose fact is another effect's proves nothing here; giving up is the way out.
    freed = case.row.error_class == "fact_taken" and command.action is Action.ABANDON
    if case.late and command.action in NOTHING_THERE and not freed:
        proof = case.late[-1].receipt
        known = proof.external_id if proof is not None else "a receipt"
        return f"a worker's answer that came too late proves it: {known}; confirm it, or retry"
    if command.action is Action.AMEND:
        return _against_amendment(command, case.row, seen, kind)
    if seen is None:
        return None
    against = _against(command, case.row, seen, kind)
    return against and f"{against}, or repeat the command with override to insist"


def _against_amendment(
    command: Command, row: EffectRow, seen: Finding | LookupDown | None, kind: Kind
) -> str | None:
    """A new input has a new key: that the old one does not exist is all that guards it."""
    proven = row.state is State.CLEAR and row.evidence.source != "person"
    if row.state is State.CLEAR and row.evidence.rule == ABSENT_KEYED:
        return ABSENT_ONLY_BY_KEY
    if proven and not isinstance(seen, CONTRADICTING):
        return None
    if seen is not None:
        return _against(command, row, seen, kind)
    if row.state is State.CLEAR or command.evidence:
        return None
    return "the outside cannot be asked: give as evidence what shows that it does not exist"


def _against(
    command: Command, row: EffectRow, seen: Finding | LookupDown, kind: Kind
) -> str | None:
    if isinstance(seen, LookupDown):
        return f"{seen}; ask again"
    if command.action is Action.CONFIRM:
        return _against_existence(command, seen)
    return _against_absence(seen, row, kind)


def _against_existence(command: Command, seen: Finding) -> str | None:
    match seen:
        case finding.Found():
            return None
        case finding.Absent():
            return "the outside does not have it"
        case finding.Refused():
            return f"the outside says that it failed for good ({seen.detail or seen.error_class})"
        case finding.Pending():
            return PENDING
        case finding.Several(external_ids=ids) | finding.Unknowable(candidates=ids):
            return _not_among(command, ids)
        case finding.Differs(external_id=only):
            return _not_among(command, (only,))
        case _:
            assert_never(seen)


def _not_among(command: Command, ids: tuple[str, ...]) -> str | None:
    """A person may tie one of the facts that were found, and no other."""
    named = command.receipt.external_id if command.receipt is not None else None
    if not ids or named in ids:
        return None
    return f"the lookup found {', '.join(ids)}: confirm one of these"


def _against_absence(seen: Finding, row: EffectRow, kind: Kind) -> str | None:
    match seen:
        case finding.Refused() if row.attempt == 1:
            return None
        case finding.Refused() | finding.Absent():  # a refusal may be an earlier attempt's
            conclusive = conclusive_at(row, kind)
            if row.now >= conclusive:
                return None
            return f"not visible yet; an empty lookup is conclusive from {conclusive:%H:%M:%S} UTC"
        case finding.Found():
            known = seen.receipt.external_id
            return f"the outside has it as {known}: confirm it"
        case finding.Pending():
            return PENDING
        case finding.Several(external_ids=ids) | finding.Unknowable(candidates=ids):
            return f"the lookup found {', '.join(ids) or 'no clear answer'}"
        case finding.Differs():
            return f"{seen.external_id} carries this id"
        case _:
            assert_never(seen)
