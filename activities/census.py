"""``census``: the outside's own list of one kind against the ledger. Nothing is sent, whatever it finds."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from temporalio import activity

from activities.heartbeat import beating
from activities.serving import Served
from ascertain.census import Census
from ascertain.contracts import names
from ascertain.contracts.census import CensusReport, CensusRequest
from ascertain.contracts.directive import RunQueued
from ascertain.contracts.effect import Evidence
from ascertain.errors import NotFound, Unlisted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from activities.serving import Serving
    from ascertain.contracts.census import Discrepancy
    from ascertain.ports import Lister, Standing, Upkeep

WITHIN: Final = timedelta(minutes=25)
AT_ONCE: Final = 1000


class TakeCensus:
    """The activity that lists."""

    def __init__(self, serving: Serving, upkeep: Upkeep) -> None:
        self._serving = serving
        self._upkeep = upkeep

    @activity.defn(name=names.CENSUS)
    async def census(self, request: CensusRequest) -> CensusReport:
        """Read the ledger, then the outside's list to its end, and compare.

        Raises:
            LookupDown: The outside could not be listed to its end; a part of a list proves nothing.
            LedgerDown: The ledger did not answer.
        """
        kind = request.kind
        served = self._serving.find(kind)
        if isinstance(served, RunQueued):
            return CensusReport(kind=kind, elsewhere=served.task_queue)
        if not isinstance(served, Served):
            return CensusReport(kind=kind, not_taken=served.reason)
        # Not isinstance: an adapter may be one that passes on what it does not do itself.
        if not hasattr(served.adapter, "listing"):
            return CensusReport(kind=kind, not_taken="its adapter cannot list what exists outside")
        async with beating():
            try:
                return await self._take(
                    request, cast("Lister", served.adapter), served.kind.semantics.lag
                )
            except Unlisted as error:
                return CensusReport(kind=kind, not_taken=str(error))

    async def _take(self, request: CensusRequest, lister: Lister, lag: timedelta) -> CensusReport:
        census = Census(request.kind, request.since)
        async for settled in self._upkeep.settled(request.kind, request.since, lag):
            census.settled.update(settled)
        async for page in lister.listing(since=request.since, within=WITHIN):
            census.listed.update({fact.external_id: fact for fact in page})
        known = await self._known([*census.of_ours()])
        report = census.report(known)
        for found in report.discrepancies:
            if found.effect_id in known or found.effect_id in census.settled:
                await self._note(found)
        await self._upkeep.keep_census(report)
        return report

    async def _known(self, ids: list[str]) -> Mapping[str, Standing]:
        known: dict[str, Standing] = {}
        for start in range(0, len(ids), AT_ONCE):
            known.update(await self._upkeep.standing(ids[start : start + AT_ONCE]))
        return known

    async def _note(self, found: Discrepancy) -> None:
        """On the effect's own trail, once for each thing that was seen."""
        seen = Evidence(
            source="lookup",
            rule=f"census_{found.discord}",
            detail=found.detail,
            body={"external_ids": list(found.external_ids)},
        )
        trail = await self._serving.ledger.audit(found.effect_id)
        if any(
            (told.evidence.rule, told.evidence.detail) == (seen.rule, seen.detail) for told in trail
        ):
            return
        try:
            await self._serving.ledger.note(found.effect_id, self._serving.identity, seen)
        except NotFound:
            return
