"""What is read of effects, by the pure ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascertain.contracts.effect import TERMINAL, AuditEvent, EffectRow
from ascertain.ledger import twin
from ascertain.ledger.memory import Remembering
from ascertain.ledger.row import as_restored
from ascertain.ports import Case, EffectFilter, Trail

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ascertain.ports import Page


class ModelReading(Remembering):
    """The part of ``ports.Ledger`` that reads effects."""

    async def inspect(self, effect_id: str) -> Case | None:
        """See ``ports.Ledger.inspect``."""
        row = self._memory.rows.get(effect_id)
        if row is None:
            return None
        row = as_restored(row, twin.raised_at(row, self._memory.epochs))
        return Case(twin.read(row, self._clock()), self._memory.late(effect_id))

    async def proved(self, kind: str, external_ids: Sequence[str]) -> frozenset[str]:
        """See ``ports.Ledger.proved``."""
        return frozenset(name for name in external_ids if self._memory.proved_by(kind, name))

    async def effects(self, which: EffectFilter) -> Sequence[EffectRow]:
        """See ``ports.Ledger.effects``."""
        now = self._clock()
        fitting = [row for row in self._memory.rows.values() if _fits(row, which)]
        fitting.sort(key=lambda row: row.effect_id)
        fitting.sort(key=lambda row: row.state_since, reverse=True)
        return [twin.read(row, now) for row in fitting[: which.limit]]

    async def quiet(self, page: Page) -> Sequence[EffectRow]:
        """See ``ports.Ledger.quiet``."""
        now = self._clock()
        fitting = [row for row in self._memory.rows.values() if _is_quiet(row, page, now)]
        fitting.sort(key=lambda row: (row.state_since, row.effect_id))
        return [twin.read(row, now) for row in fitting[: page.limit]]

    async def audit(self, effect_id: str) -> Sequence[AuditEvent]:
        """See ``ports.Ledger.audit``."""
        return self._memory.trails.get(effect_id, ())

    async def trails(self, which: EffectFilter, *, after: str = "") -> Sequence[Trail]:
        """See ``ports.Ledger.trails``."""
        now = self._clock()
        known = self._memory.rows.values()
        fitting = [row for row in known if row.effect_id > after and _fits(row, which)]
        fitting.sort(key=lambda row: row.effect_id)
        return [
            Trail(twin.read(row, now), self._memory.trails.get(row.effect_id, ()))
            for row in fitting[: which.limit]
        ]


def _fits(row: EffectRow, which: EffectFilter) -> bool:
    """Whether a filter lets the row through."""
    return (
        (which.states is None or row.state in which.states)
        and (which.partition is None or row.partition == which.partition)
        and (which.kind is None or row.kind == which.kind)
        and (which.task_id is None or row.task_id == which.task_id)
    )


def _is_quiet(row: EffectRow, page: Page, now: datetime) -> bool:
    """Whether the row belongs on a page of quiet ones or on a later one."""
    return (
        row.state is page.state
        and row.state not in TERMINAL
        and row.state_since <= now - page.older_than
        and row.lease_until <= now
        and (page.after is None or (row.state_since, row.effect_id) > page.after)
    )
