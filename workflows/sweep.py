"""The workflow that a schedule starts to look for effects which no task pursues any more."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts import names
    from ascertain.contracts.sweep import SweepReport, SweepRequest, SweptPage

from workflows.argument import NOTHING, argument


@workflow.defn(name=names.SWEEP_WORKFLOW)
class SweepWorkflow:
    """One look at everything that is unresolved, page by page; the next one is the schedule's business."""

    @workflow.run
    async def run(self, content: RawValue = NOTHING) -> SweepReport:
        """Have the ledger swept once.

        Args:
            content: A ``SweepRequest`` as JSON.

        Raises:
            ApplicationError: ``InvalidRequest``; nothing was done.
        """
        request = argument(content, SweepRequest)
        while True:
            page = await workflow.execute_activity(
                names.SWEEP,
                request,
                result_type=SweptPage,
                start_to_close_timeout=timedelta(minutes=5),
                heartbeat_timeout=timedelta(seconds=30),
                retry_policy=RetryPolicy(maximum_attempts=3),
            )
            so_far = request.so_far.plus(page.report)
            if page.next is None:
                return so_far
            request = request.model_copy(update={"at": page.next, "so_far": so_far})
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(request)
