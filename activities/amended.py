"""An amendment that a restored ledger has forgotten, and that the task's own history remembers.

Only what provably did not exist was ever superseded, and no task comes to a later revision otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio import activity

from ascertain import keys, policy
from ascertain.contracts.claim import Moved, Verdict
from ascertain.contracts.effect import TERMINAL, Evidence, State
from ascertain.contracts.epoch import RESTORED

if TYPE_CHECKING:
    from activities.serving import Serving
    from ascertain.contracts.effect import Effect, EffectRow
    from ascertain.ports import Case

WHY = "its task's history says that a person replaced its input before the ledger was restored"
IN_DOUBT = frozenset({State.UNKNOWN, State.ACCEPTED})


async def remembered(serving: Serving, effect: Effect) -> bool:
    """Have the ledger close what ``effect`` came instead of; whether there was something to close."""
    case = await _open_before(serving, effect)
    if case is None or _in_hand_since(case.row):
        return False
    return await _supersede(serving, case, effect)


async def in_hand(serving: Serving, effect: Effect) -> bool:
    """Whether a person has had, since the restore, what ``effect`` came instead of: it is theirs to end."""
    case = await _open_before(serving, effect)
    return case is not None and _in_hand_since(case.row)


async def _open_before(serving: Serving, effect: Effect) -> Case | None:
    namespace = activity.info().namespace
    for revision in range(effect.revision):
        earlier = keys.effect_id(namespace, effect.task_id, effect.step, revision)
        case = await serving.ledger.inspect(earlier)
        if case is not None and case.row.state not in TERMINAL:
            return case
    return None


def _in_hand_since(row: EffectRow) -> bool:
    """Whether a person moved it after the ledger was restored, until which its last permit may reach."""
    moved = row.state is State.TAKEN_OVER or row.evidence.source == "person"
    return moved and row.state_since > row.lease_until


async def _supersede(serving: Serving, case: Case, effect: Effect) -> bool:
    """A receipt that came too late speaks against it, and a permit that is not over: then nothing moves."""
    ledger, by = serving.ledger, serving.identity
    row: EffectRow | None = None if case.late else case.row
    if row is not None and row.state is State.IN_FLIGHT:
        row = _moved(await ledger.fence(row.effect_id, row.version, by))
    if row is not None and row.state in IN_DOUBT:
        stop = Verdict(State.QUARANTINED, _evidence(), error_class=RESTORED)
        row = _moved(await ledger.converge(row.effect_id, row.version, stop, by))
    if row is None:
        return False
    denial = None if row.state is State.CLEAR else Verdict(State.CLEAR, _evidence())
    evidence = _evidence().model_copy(update={"body": policy.amendment(effect)})
    verdict = Verdict(State.SUPERSEDED, evidence, superseded_by=effect.effect_id)
    owner = row.taken_by or by
    return isinstance(await ledger.amend(row.effect_id, row.version, denial, verdict, owner), Moved)


def _moved(written: object) -> EffectRow | None:
    return written.row if isinstance(written, Moved) else None


def _evidence() -> Evidence:
    return Evidence(source="rule", rule=RESTORED, detail=WHY)
