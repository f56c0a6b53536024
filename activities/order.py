"""A person's order to take a settled effect back, for a run that may know nothing of it.

The order stands in Temporal with the run that was given it, and a reset forgets that; in the ledger it stands
for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascertain.contracts import directive
from ascertain.contracts.command import Action

if TYPE_CHECKING:
    from ascertain.contracts.directive import Directive
    from ascertain.contracts.effect import AuditEvent
    from ascertain.ports import Ledger


async def recalled(ledger: Ledger, effect_id: str, following: Directive) -> Directive:
    """What follows for an effect that stood before it was asked for, with the order if there is one.

    Raises:
        LedgerDown: Asked again later: the step after it must not begin before this is known.
    """
    if not isinstance(following, directive.Done):
        return following
    ordered = any(map(orders_undo, await ledger.audit(effect_id)))
    return following.model_copy(update={"ordered_back": ordered})


def orders_undo(event: AuditEvent) -> bool:
    """Whether a person had the effect taken back."""
    said = event.evidence
    return event.move == "note" and (said.source, said.rule) == ("person", Action.UNDO.value)
