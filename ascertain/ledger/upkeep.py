"""What is asked of the whole ledger: for the census, for the audit, and what is stuck for how long."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from ascertain.contracts.effect import UNRESOLVED, AuditEvent, State
from ascertain.ledger import row as rows
from ascertain.ledger.statement import statement
from ascertain.ports import ArchivedPage, Standing, Tally

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence
    from datetime import datetime, timedelta

    from ascertain.contracts.effect import EffectRow
    from ascertain.ledger.session import Session
    from ascertain.ports import Upkeep

_SETTLED_PAGE: Final = statement("settled_page")
_STANDING: Final = statement("standing")
_TALLIES: Final = statement("tallies")
_ARCHIVE_PAGE: Final = statement("archive_page")
_EFFECTS_PAGE: Final = statement("effects_page")
_TRAILS_PAGE: Final = statement("trails_page")

_PAGE: Final = 1000


class PostgresUpkeep:
    """``ports.Upkeep`` on the session of a ledger."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def settled(
        self, kind: str, since: datetime | None, lag: timedelta
    ) -> AsyncIterator[Mapping[str, str]]:
        """See ``ports.Upkeep.settled``."""
        after = ""
        while True:
            found = await self._session.fetch(_SETTLED_PAGE, kind, since, after, _PAGE, lag)
            yield {record["effect_id"]: record["external_id"] for record in found}
            if len(found) < _PAGE:
                return
            after = found[-1]["external_id"]

    async def standing(self, effect_ids: Collection[str]) -> Mapping[str, Standing]:
        """See ``ports.Upkeep.standing``."""
        found = await self._session.fetch(_STANDING, [*effect_ids])
        return {
            record["effect_id"]: Standing(record["kind"], State(record["state"]))
            for record in found
        }

    async def tallies(self) -> Sequence[Tally]:
        """See ``ports.Upkeep.tallies``."""
        found = await self._session.fetch(_TALLIES, [state.value for state in UNRESOLVED])
        return [
            Tally(record["partition"], State(record["state"]), record["count"], record["stuck_for"])
            for record in found
        ]

    async def archive(
        self, older_than: timedelta, *, after: str = "", limit: int = _PAGE, moves: bool = True
    ) -> ArchivedPage:
        """See ``ports.Upkeep.archive``."""
        (found,) = await self._session.fetch(_ARCHIVE_PAGE, after, older_than, limit, moves)
        return ArchivedPage(found["seen"], found["archived"], found["last"] or after)

    async def trails(self) -> AsyncIterator[tuple[EffectRow, Sequence[AuditEvent]]]:
        """See ``ports.Upkeep.trails``."""
        after = ""
        while True:
            found = await self._session.fetch(_EFFECTS_PAGE, after, _PAGE)
            ids = [record["effect_id"] for record in found]
            told: dict[str, list[AuditEvent]] = defaultdict(list)
            for record in await self._session.fetch(_TRAILS_PAGE, ids):
                told[record["effect_id"]].append(rows.audit_event(record))
            for record in found:
                yield rows.effect_row(record), told[record["effect_id"]]
            if len(found) < _PAGE:
                return
            after = ids[-1]


if TYPE_CHECKING:
    _conforms: type[Upkeep] = PostgresUpkeep
