"""How the gates of a held task stand now: it heard at its last look, and they may have moved since. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ascertain.cli import shape
from ascertain.cli.advice import HELD
from ascertain.cli.gate_command import EVERY
from ascertain.ledger.gate import paused, stops

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ascertain.cli.known import Known
    from ascertain.contracts.gate import Gate

# What the status calls an effect that is being done, or is about to be.
_DOING = "perform"


def as_it_is_now(known: Known) -> Known:
    """The same, with what a held task would hear if it looked now; unchanged if no ledger tells.

    A task that is let through now is not told as held: it goes on as soon as it is told, or looks.
    """
    status = known.status
    opened = status.open if status is not None else None
    own = {gate.partition: gate for gate in known.gates if gate.partition in _of(known)}
    if status is None or opened is None or opened.doing != HELD or not own:
        return known
    now = _now([own[name] for name in _of(known) if name in own], opened.effect_id, known.at)
    refreshed = status.model_copy(update={"open": opened.model_copy(update=now)})
    return replace(known, status=refreshed)


def _now(gates: Sequence[Gate], effect_id: str, now: datetime) -> dict[str, object]:
    """What of the open effect they change; of two that counts which is paused, or whose turn is later."""
    met = [paused(gate, effect_id, now) for gate in gates if stops(gate, effect_id, now)]
    if not met:
        stand = " ".join(shape.gate_words(gate, now) for gate in gates)
        return {
            "doing": _DOING,
            "reason": f"it is let through now: {stand}",
            "turn_at": None,
            "gate": None,
        }
    told = next((one for one in met if one.turn is None), None)
    if told is not None:
        return {"reason": told.words, "turn_at": None, "gate": told.partition}
    turns = [(one.turn.at, one.words, one.partition) for one in met if one.turn is not None]
    at, words, gate = max(turns)
    return {"reason": words, "turn_at": at, "gate": gate}


def _of(known: Known) -> tuple[str, str]:
    """Whose gates are its own, that of every partition first, as the ledger looks at them."""
    return EVERY, known.partition
