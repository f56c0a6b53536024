"""What is asked of the whole ledger: for the census, for the audit, and what is stuck for how long."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ascertain.contracts.census import CensusReport
from ascertain.contracts.effect import UNRESOLVED, AuditEvent, State
from ascertain.ledger import row as rows
from ascertain.ledger.statement import statement
from ascertain.ports import ArchivedPage, KeptCensus, Measured, Spread, Standing, Tally, Waiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from ascertain.contracts.effect import EffectRow
    from ascertain.ledger.session import Session
    from ascertain.ports import Upkeep

_ORIGIN: Final = statement("origin")
_SETTLED_PAGE: Final = statement("settled_page")
_STANDING: Final = statement("standing")
_TALLIES: Final = statement("tallies")
_QUARANTINED: Final = statement("quarantined")
_ARCHIVE_PAGE: Final = statement("archive_page")
_KEEP_CENSUS: Final = statement("keep_census")
_CENSUSES: Final = statement("censuses")
_MEASURED: Final = statement("measured")
_EFFECTS_PAGE: Final = statement("effects_page")
_TRAILS_PAGE: Final = statement("trails_page")

_PAGE: Final = 1000


class PostgresUpkeep:
    """``ports.Upkeep`` on the session of a ledger."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def origin(self) -> str:
        """See ``ports.Upkeep.origin``."""
        (found,) = await self._session.fetch(_ORIGIN)
        return str(found["origin"])

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

    async def tallies(self, states: Collection[State] = UNRESOLVED) -> Sequence[Tally]:
        """See ``ports.Upkeep.tallies``."""
        found = await self._session.fetch(_TALLIES, [state.value for state in states])
        return [
            Tally(
                record["kind"],
                record["partition"],
                State(record["state"]),
                record["count"],
                record["stuck_for"],
            )
            for record in found
        ]

    async def quarantined(
        self, partition: str | None = None, task_ids: Collection[str] | None = None
    ) -> Sequence[Waiting]:
        """See ``ports.Upkeep.quarantined``."""
        some = None if task_ids is None else [*task_ids]
        found = await self._session.fetch(_QUARANTINED, partition, some)
        return [
            Waiting(
                record["kind"],
                record["partition"],
                record["error_class"],
                record["answer"],
                record["count"],
                record["oldest_since"],
                record["age"],
                tuple(record["examples"]),
            )
            for record in found
        ]

    async def archive(
        self, older_than: timedelta, *, after: str = "", limit: int = _PAGE, moves: bool = True
    ) -> ArchivedPage:
        """See ``ports.Upkeep.archive``."""
        (found,) = await self._session.fetch(_ARCHIVE_PAGE, after, older_than, limit, moves)
        return ArchivedPage(found["seen"], found["archived"], found["last"] or after)

    async def keep_census(self, report: CensusReport) -> None:
        """See ``ports.Upkeep.keep_census``."""
        kept = report.model_dump_json(exclude={"discrepancies"})
        await self._session.fetch(_KEEP_CENSUS, report.kind, kept)

    async def censuses(self) -> Sequence[KeptCensus]:
        """See ``ports.Upkeep.censuses``."""
        found = await self._session.fetch(_CENSUSES)
        return [
            KeptCensus(CensusReport.model_validate_json(record["report"]), record["age"])
            for record in found
        ]

    async def measured(self, most: int) -> Sequence[Measured]:
        """See ``ports.Upkeep.measured``."""
        return [_measured(record) for record in await self._session.fetch(_MEASURED, most)]

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


def _measured(record: asyncpg.Record) -> Measured:
    denied_s = record["denied_s"]
    return Measured(
        record["kind"],
        record["effects"],
        attempts=_spread(record["attempts"], record["attempts_s"]),
        lateness=_spread(record["found"], record["lateness_s"]),
        stood=_spread(record["stood"], record["stood_s"]),
        unsent=record["unsent"],
        denied=None if denied_s is None else timedelta(seconds=denied_s),
    )


def _spread(count: int, shares_s: Sequence[float] | None) -> Spread:
    if shares_s is None or not count:
        return Spread()
    return Spread(count, *(timedelta(seconds=share_s) for share_s in shares_s))


if TYPE_CHECKING:
    _conforms: type[Upkeep] = PostgresUpkeep
