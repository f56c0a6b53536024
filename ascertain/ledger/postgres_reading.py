"""What is read of effects, from PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ascertain.contracts.effect import TERMINAL
from ascertain.ledger import row as rows
from ascertain.ledger.statement import statement
from ascertain.ports import Case, Trail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascertain.contracts.effect import AuditEvent, EffectRow
    from ascertain.ledger.session import Session
    from ascertain.ports import EffectFilter, Page

_INSPECT: Final = statement("inspect")
_OPEN_EFFECTS: Final = statement("open_effects")
_TASK_EFFECTS: Final = statement("task_effects")
_ALL_EFFECTS: Final = statement("all_effects")
_OPEN_TRAILS: Final = statement("open_trails")
_ALL_TRAILS: Final = statement("all_trails")
_PROVED: Final = statement("proved")
_QUIET_EFFECTS: Final = statement("quiet_effects")
_AUDIT: Final = statement("audit")


class PostgresReading:
    """The part of ``ports.Ledger`` that reads effects."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def inspect(self, effect_id: str) -> Case | None:
        """See ``ports.Ledger.inspect``."""
        found = await self._session.fetch(_INSPECT, effect_id)
        if not found:
            return None
        row = rows.as_restored(rows.effect_row(found[0]), found[0]["raised_at"])
        return Case(row, rows.audit_events(found[0]["late"]))

    async def proved(self, kind: str, external_ids: Sequence[str]) -> frozenset[str]:
        """See ``ports.Ledger.proved``."""
        found = await self._session.fetch(_PROVED, kind, list(external_ids))
        return frozenset(record["external_id"] for record in found)

    async def effects(self, which: EffectFilter) -> Sequence[EffectRow]:
        """See ``ports.Ledger.effects``."""
        if which.states is not None and not which.states & TERMINAL:
            text = _OPEN_EFFECTS
        else:
            text = _ALL_EFFECTS if which.task_id is None else _TASK_EFFECTS
        states = None if which.states is None else [state.value for state in which.states]
        found = await self._session.fetch(
            text, states, which.partition, which.kind, which.task_id, which.limit
        )
        return [rows.effect_row(record) for record in found]

    async def quiet(self, page: Page) -> Sequence[EffectRow]:
        """See ``ports.Ledger.quiet``."""
        since, effect_id = page.after or (None, None)
        found = await self._session.fetch(
            _QUIET_EFFECTS, page.state.value, page.older_than, since, effect_id, page.limit
        )
        return [rows.effect_row(record) for record in found]

    async def audit(self, effect_id: str) -> Sequence[AuditEvent]:
        """See ``ports.Ledger.audit``."""
        return [rows.audit_event(record) for record in await self._session.fetch(_AUDIT, effect_id)]

    async def trails(self, which: EffectFilter, *, after: str = "") -> Sequence[Trail]:
        """See ``ports.Ledger.trails``."""
        is_open = which.states is not None and not which.states & TERMINAL
        states = None if which.states is None else [state.value for state in which.states]
        found = await self._session.fetch(
            _OPEN_TRAILS if is_open else _ALL_TRAILS,
            states,
            which.partition,
            which.kind,
            which.task_id,
            which.limit,
            after,
        )
        return [Trail(rows.effect_row(each), rows.audit_events(each["trail"])) for each in found]
