"""Pause and resume a partition from any tool that can start a workflow."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts import names
    from ascertain.contracts.gate import GateAnswer, GateChange, GateRequest

from workflows.argument import NOTHING, argument, refusal

# A timer that ends exactly at a limit may be read just before it.
AFTER = timedelta(milliseconds=50)
# The limit is by the ledger's clock and the timer by Temporal's, and nobody promises that they agree.
LONGEST = timedelta(seconds=2)


@workflow.defn(name=names.GATE_WORKFLOW)
class GateWorkflow:
    """One change of one gate. It ends when that is committed and nothing behind it can send any more."""

    @workflow.run
    async def run(self, content: RawValue = NOTHING) -> GateAnswer:
        """Close or open the gate.

        Args:
            content: A ``GateRequest`` as JSON.

        Raises:
            ApplicationError: ``InvalidRequest``, or ``CommandRefused`` where the request id was another
                command's; the gate is as it was.
        """
        change = _change(argument(content, GateRequest))
        while True:
            answer = await _set(change)
            if answer.may_send_until is None:
                return answer
            left = max(answer.may_send_until - workflow.now(), AFTER)
            await workflow.sleep(min(left, LONGEST) + AFTER)


async def _set(change: GateChange) -> GateAnswer:
    try:
        answer: GateAnswer = await workflow.execute_activity(
            names.SET_GATE,
            change,
            result_type=GateAnswer,
            start_to_close_timeout=timedelta(seconds=30),
            summary=f"{'pause' if change.paused else 'resume'} {change.partition}",
        )
    except ActivityError as error:
        cause = error.cause
        if isinstance(cause, ApplicationError) and cause.type == names.COMMAND_REFUSED:
            raise refusal(cause.message, names.COMMAND_REFUSED) from None
        raise
    return answer


def _change(wanted: GateRequest) -> GateChange:
    return GateChange(
        partition=wanted.partition,
        paused=wanted.paused,
        by=wanted.operator,
        reason=wanted.reason,
        request_id=wanted.request_id or workflow.info().run_id,
        ramp=wanted.ramp,
    )
