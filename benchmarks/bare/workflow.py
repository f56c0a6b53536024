"""The workflow of the bare side."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from temporalio import workflow

WORKFLOW: Final = "BareTask"
CREATE: Final = "bare_create"
TASK_QUEUE: Final = "bare"


@workflow.defn(name=WORKFLOW)
class BareTask:
    """One activity with Temporal's own retries; its result is the task's."""

    @workflow.run
    async def run(self, reference: str) -> str:
        """Give the id that the outside has for the fact."""
        external_id: str = await workflow.execute_activity(
            CREATE, reference, result_type=str, start_to_close_timeout=timedelta(seconds=10)
        )
        return external_id
