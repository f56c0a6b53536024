"""The workflow that has every kind's list outside compared with the ledger."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts import names
    from ascertain.contracts.census import Censuses, CensusOrder, CensusReport, CensusRequest

from workflows.argument import NOTHING, argument


@workflow.defn(name=names.CENSUS_WORKFLOW)
class CensusWorkflow:
    """One kind after the other; one that cannot be listed now keeps no other from being compared."""

    @workflow.run
    async def run(self, content: RawValue = NOTHING) -> Censuses:
        """Have each kind's census taken.

        Args:
            content: A ``CensusOrder`` as JSON.

        Raises:
            ApplicationError: ``InvalidRequest``; nothing was done.
        """
        order = argument(content, CensusOrder)
        since = None
        if order.no_older_than is not None:
            since = workflow.now() - order.no_older_than
        requests = [CensusRequest(kind=kind, since=since) for kind in order.kinds]
        return Censuses(reports=tuple([await self._of(request) for request in requests]))

    async def _of(self, request: CensusRequest) -> CensusReport:
        try:
            report = await self._take(request, None)
            if report.elsewhere is not None:
                return await self._take(request, report.elsewhere)
        except ActivityError as error:
            return CensusReport(kind=request.kind, not_taken=str(error.cause or error))
        return report

    async def _take(self, request: CensusRequest, task_queue: str | None) -> CensusReport:
        report: CensusReport = await workflow.execute_activity(
            names.CENSUS,
            request,
            result_type=CensusReport,
            task_queue=task_queue,
            schedule_to_start_timeout=timedelta(minutes=1),
            start_to_close_timeout=timedelta(minutes=30),
            heartbeat_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_attempts=3),
        )
        return report
