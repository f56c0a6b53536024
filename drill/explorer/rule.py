"""What must hold of every write to the ledger. What must hold of every state is in ``theorem``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ascertain.contracts.effect import TERMINAL, EffectRow, State
from ascertain.machine import ACTOR, TABLE, Actor, legal_pairs
from drill.explorer.page import ANOTHER, EFFECT

if TYPE_CHECKING:
    from ascertain.ledger.memory import Memory

_LEGAL: Final = legal_pairs()
_AUTOMATIC: Final = frozenset(
    (start, end)
    for move, leads in TABLE.items()
    if ACTOR[move] is not Actor.PERSON
    for start, end in leads.items()
)


@dataclass(frozen=True, slots=True)
class Write:
    """One operation on the ledger, as the rules look at it.

    Attributes:
        budget: Most grants since the last retry that a person ordered.
        shut: The gate was closed.
        stale: It named an old version or an old lease version, or came from the wrong person.
        person: A person made it.
        receipt: It brought a receipt.
        denied: It is two moves in one commit: that there is nothing, and what comes instead.
    """

    before: Memory
    after: Memory
    budget: int
    shut: bool = False
    stale: bool = False
    person: bool = False
    receipt: bool = False
    denied: bool = False

    @property
    def was(self) -> EffectRow | None:
        """The effect's row before it."""
        return self.before.rows.get(EFFECT.effect_id)

    @property
    def late(self) -> bool:
        """Whether the ledger held a late receipt."""
        return bool(self.before.trails.get(EFFECT.effect_id))


def broken_by(write: Write) -> str | None:
    """The rule that a write breaks, in one sentence; None if it keeps them all."""
    was, now = write.was, write.after.rows.get(EFFECT.effect_id)
    if now is None:
        return None if was is None else "a row vanished"
    shared = _of_proof(now, write)
    if shared is not None:
        return shared
    if was is not None and was.model_copy(update={"now": now.now}) == now:
        return _of_refused(write)
    if write.stale:
        return "a write that was to change nothing changed the row"
    return (
        _of_numbers(was, now, write)
        or _of_states(was, now, write)
        or _of_grant(was, now, write)
        or _of_renewal(was, now, write)
    )


def _of_proof(now: EffectRow, write: Write) -> str | None:
    if now.state is State.SETTLED and now.receipt is None:
        return "SETTLED without a receipt"
    other = write.after.rows.get(ANOTHER)
    if other is not None and other.external_id is not None and other.external_id == now.external_id:
        return "one fact proves two effects"
    return None


def _of_refused(write: Write) -> str | None:
    if write.stale and write.receipt:
        kept = len(write.after.trails.get(EFFECT.effect_id, ()))
        if kept == len(write.before.trails.get(EFFECT.effect_id, ())):
            return "the late receipt was thrown away"
    return None


def _of_numbers(was: EffectRow | None, now: EffectRow, write: Write) -> str | None:
    if was is None:
        return None
    if now.version != was.version + (2 if write.denied else 1):
        return "a move did not raise the version by one"
    if now.lease_version < was.lease_version or now.attempt < was.attempt:
        return "lease_version or attempt went down"
    entered = now.state is State.IN_FLIGHT and was.state is not State.IN_FLIGHT
    fenced = was.state is State.IN_FLIGHT and now.error_class == "fenced"
    if (entered or fenced) and now.lease_version == was.lease_version:
        return "a claim or a fence did not raise lease_version"
    return None


def _of_states(was: EffectRow | None, now: EffectRow, write: Write) -> str | None:
    if was is None or was.state is now.state:
        return None
    if was.state in TERMINAL:
        return f"{was.state} is final, and became {now.state}"
    start = State.CLEAR if write.denied and (was.state, State.CLEAR) in _LEGAL else was.state
    if (start, now.state) not in _LEGAL:
        return f"{was.state} became {now.state}, which no move allows"
    if not write.person and (was.state, now.state) not in _AUTOMATIC:
        return f"automation moved {was.state} to {now.state}, which only a person may"
    return None


def _of_grant(was: EffectRow | None, now: EffectRow, write: Write) -> str | None:
    if was is not None and now.attempt == was.attempt:
        return None
    if write.shut:
        return "a claim was granted while the gate is closed"
    if now.attempt - now.budget_from > write.budget:
        return "a claim was granted beyond the budget"
    if write.late and was is not None and was.state is State.CLEAR:
        return "a claim was granted though the ledger holds a receipt"
    return None


def _of_renewal(was: EffectRow | None, now: EffectRow, write: Write) -> str | None:
    longer = was is not None and now.lease_until > was.lease_until
    if longer and now.state is State.IN_FLIGHT and write.shut:
        return "a permit was renewed while the gate is closed"
    return None
