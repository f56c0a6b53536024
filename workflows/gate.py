"""Pause and resume a partition from any tool that can start a workflow."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from ascertain.contracts import names
    from ascertain.contracts.fault import faults
    from ascertain.contracts.gate import GateAnswer, GateChange, GateRequest

# A timer that ends exactly at a limit may be read just before it.
AFTER = timedelta(milliseconds=50)
# The limit is by the ledger's clock and the timer by Temporal's, and nobody promises that they agree.
LONGEST = timedelta(seconds=2)


@workflow.defn(name=names.GATE_WORKFLOW)
class GateWorkflow:
    """One change of one gate. It ends when that is committed and nothing behind it can send any more."""

    @workflow.run
    async def run(self, request: Any = None) -> GateAnswer:  # noqa: ANN401  # anybody may start it
        """Close or open the gate.

        Args:
            request: A ``GateRequest`` as JSON.

        Raises:
            ApplicationError: ``InvalidGateRequest``; the gate is as it was.
        """
        change = _change(request)
        while True:
            answer: GateAnswer = await workflow.execute_activity(
                names.SET_GATE,
                change,
                result_type=GateAnswer,
                start_to_close_timeout=timedelta(seconds=30),
                summary=f"{'pause' if change.paused else 'resume'} {change.partition}",
            )
            if answer.may_send_until is None:
                return answer
            left = max(answer.may_send_until - workflow.now(), AFTER)
            await workflow.sleep(min(left, LONGEST) + AFTER)


def _change(request: object) -> GateChange:
    try:
        wanted = GateRequest.model_validate(request)
    except ValidationError as error:
        message = f"not a gate request: {faults(error)}"
        raise ApplicationError(message, type="InvalidGateRequest", non_retryable=True) from None
    return GateChange(
        partition=wanted.partition,
        paused=wanted.paused,
        by=wanted.operator,
        reason=wanted.reason,
        request_id=wanted.request_id or workflow.info().run_id,
        ramp=wanted.ramp,
    )
