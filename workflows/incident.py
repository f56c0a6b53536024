"""The workflow of an incident: pause, snapshot, reconcile, replay, resume; each only if a person says so."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ApplicationError, ChildWorkflowError

with workflow.unsafe.imports_passed_through():
    from pydantic import BaseModel

    from ascertain.contracts import names
    from ascertain.contracts.incident import (
        Approval,
        GateOrder,
        IncidentRequest,
        IncidentStatus,
        Reconciled,
        ReconcileOrder,
        SnapshotOrder,
        SnapshotTaken,
        Step,
        StepDone,
    )
    from ascertain.contracts.replay import ReplayRequest, Said, Say, Selection, Tally

from workflows.answered import Answers, hear
from workflows.argument import NOTHING, applied, argument, refusal, said

if TYPE_CHECKING:
    from collections.abc import Callable

ResultT = TypeVar("ResultT")
WordT = TypeVar("WordT", bound=Say)

LONGEST = timedelta(hours=6)
HEARTBEAT = timedelta(seconds=10)
PERSISTENT = RetryPolicy(
    initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=20)
)
REFUSALS_KEPT = 20


@workflow.defn(name=names.INCIDENT_WORKFLOW)
class IncidentWorkflow:
    """The steps stand in one loop over their order: there is no way around one."""

    def __init__(self) -> None:
        self._request = IncidentRequest(operator="nobody", reason="not begun", partition="none")
        self._approval: Approval | None = None
        self._doing: Step | None = None
        self._waiting_for: Step | None = None
        self._done: list[StepDone] = []
        self._snapshot: SnapshotTaken | None = None
        self._replay: workflow.ChildWorkflowHandle[Any, Tally] | None = None
        self._tally: Tally | None = None
        self._closed: Say | None = None
        self._refused: list[str] = []
        self._answers: Answers[Said] = Answers()
        self._approved_by: Answers[Step] = Answers()

    @workflow.run
    async def run(self, content: RawValue = NOTHING) -> IncidentStatus:
        """Take one partition through an incident; ends when a person closes it.

        Raises:
            ApplicationError: ``InvalidRequest``; nothing was done.
        """
        self._request = request = argument(content, IncidentRequest)
        if workflow.info().workflow_id != request.incident_id:
            why = f"the workflow id of an incident in {request.partition} is {request.incident_id}"
            raise refusal(why)
        opened = {"operator": request.operator, "reason": request.reason}
        self._approval = Approval(**opened, step=Step.PAUSE)
        for step in Step:
            approval = await self._approved(step)
            if approval is None:
                break
            self._waiting_for, self._doing = None, step
            self._end(step, approval, await self._do(step, approval))
        await workflow.wait_condition(lambda: self._is_closed)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self.status()

    async def _approved(self, step: Step) -> Approval | None:
        """Wait for a person; None if the incident is closed instead."""
        self._waiting_for = step
        await workflow.wait_condition(lambda: self._approval is not None or self._is_closed)
        return None if self._is_closed else self._approval

    @property
    def _is_closed(self) -> bool:
        return self._closed is not None

    def _end(self, step: Step, approval: Approval, detail: str) -> None:
        done = StepDone(
            step=step,
            operator=approval.operator,
            reason=approval.reason,
            at=workflow.now(),
            detail=detail,
        )
        self._done.append(done)
        self._doing = self._approval = None

    async def _do(self, step: Step, approval: Approval) -> str:
        match step:
            case Step.PAUSE:
                return await self._execute(names.INCIDENT_PAUSE, self._gate(approval), str)
            case Step.SNAPSHOT:
                return await self._take_snapshot()
            case Step.RECONCILE:
                return await self._reconcile()
            case Step.REPLAY:
                return await self._go_on_with_replay(approval)
            case Step.RESUME:
                return await self._execute(names.INCIDENT_RESUME, self._gate(approval), str)
            case _:
                assert_never(step)

    def _gate(self, approval: Approval) -> GateOrder:
        return GateOrder(
            partition=self._request.partition,
            operator=approval.operator,
            reason=f"incident: {approval.reason}",
            request_id=f"{self._name}-{approval.step}",
            wake_rate=self._request.wake_rate,
            ramp=self._request.ramp,
        )

    async def _take_snapshot(self) -> str:
        order = SnapshotOrder(partition=self._request.partition, name=self._name)
        self._snapshot = taken = await self._execute(names.INCIDENT_SNAPSHOT, order, SnapshotTaken)
        return f"{taken.path}, sha256 {taken.sha256}"

    async def _reconcile(self) -> str:
        """Ask for everything, then let a replay do its dry run: what it says is what gets approved."""
        request = self._request
        order = ReconcileOrder(
            partition=request.partition,
            rate=request.pace.ask_rate or request.pace.rate,
            settle_within=request.settle_within,
        )
        found = await self._execute(names.INCIDENT_RECONCILE, order, Reconciled)
        replay = ReplayRequest(
            operator=request.operator,
            reason=request.reason,
            selection=Selection(partition=request.partition),
            pace=request.pace,
        )
        self._replay = child = await workflow.start_child_workflow(
            names.REPLAY_WORKFLOW,
            replay,
            id=f"{self._name}-replay",
            result_type=Tally,
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
        )
        await workflow.wait_condition(lambda: self._tally is not None or child.done())
        left = ", ".join(f"{count} {state}" for state, count in sorted(found.standing.items()))
        early = "; the replay ended early" if self._tally is None else ""
        return f"{found.asked} tasks were asked; unresolved now: {left or 'nothing'}{early}"

    async def _go_on_with_replay(self, approval: Approval) -> str:
        """Let the replay begin with its canary, and wait for its end."""
        replay = self._replay
        if replay is None:
            return "there was no replay"
        word = Say(operator=approval.operator, reason=approval.reason)
        with contextlib.suppress(ApplicationError):  # somebody ended it meanwhile
            await replay.signal(names.RESUME, word)
        await workflow.wait_condition(lambda: replay.done() or self._is_closed)
        if not replay.done():
            return "closed before its end; the replay is told to stop"
        try:
            self._tally = await replay
        except ChildWorkflowError as error:
            return f"the replay ended early: {error.cause}"
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self._tally.results.items()))
        return f"{self._tally.items} items: {counts or 'nothing to do'}"

    async def _execute(self, name: str, given: BaseModel, result: type[ResultT]) -> ResultT:
        answer: ResultT = await workflow.execute_activity(
            name,
            given,
            result_type=result,
            start_to_close_timeout=LONGEST,
            heartbeat_timeout=HEARTBEAT,
            retry_policy=PERSISTENT,
            summary=name,
        )
        return answer

    @property
    def _name(self) -> str:
        """Of this incident and no other: a partition has one after the other under the same id."""
        info = workflow.info()
        return f"{info.workflow_id}-{info.first_execution_run_id[:13]}"

    @workflow.signal(name=names.REPLAY_ASKED, description="Sent by the replay after its dry run")
    def replay_asked(self, tally: RawValue = NOTHING) -> None:
        """The dry run is over."""
        try:
            self._tally = said(tally, Tally)
        except ValueError as error:
            workflow.logger.warning("a replay's tally was passed over: %s", error)

    @workflow.update(name=names.APPROVE, description='{"step", "operator", "reason"}')
    def approve(self, word: RawValue = NOTHING) -> Said:
        """Let the next step begin. Fails if it was not applied."""
        return applied(names.APPROVE, self._hear_approval(said(word, Approval)))

    @approve.validator
    def _approve_is_said(self, word: RawValue = NOTHING) -> None:
        said(word, Approval)

    @workflow.signal(name=names.APPROVE, description='{"step", "operator", "reason"}')
    def approve_signal(self, word: RawValue = NOTHING) -> None:
        """The same as the update, for tools that can only signal; refusals stand in the status."""
        self._overhear(word, Approval, self._hear_approval)

    @workflow.update(name=names.CLOSE, description='{"operator", "reason"}')
    def close(self, word: RawValue = NOTHING) -> Said:
        """End the incident; the gate stays as it is. Fails if it was not applied."""
        return applied(names.CLOSE, self._hear_close(said(word, Say)))

    @close.validator
    def _close_is_said(self, word: RawValue = NOTHING) -> None:
        said(word, Say)

    @workflow.signal(name=names.CLOSE, description='{"operator", "reason"}')
    def close_signal(self, word: RawValue = NOTHING) -> None:
        """The same as the update, for tools that can only signal; refusals stand in the status."""
        self._overhear(word, Say, self._hear_close)

    @workflow.query(name=names.STATUS, description="Where the incident stands")
    def status(self) -> IncidentStatus:
        """Where the incident stands."""
        return IncidentStatus(
            incident_id=workflow.info().workflow_id,
            partition=self._request.partition,
            operator=self._request.operator,
            reason=self._request.reason,
            doing=self._doing,
            waiting_for=None if self._is_closed else self._waiting_for,
            done=tuple(self._done),
            snapshot=self._snapshot,
            replay_id=self._replay.id if self._replay is not None else None,
            tally=self._tally,
            closed=self._closed,
            refused=tuple(self._refused),
            approved=self._approved_by.kept,
        )

    def _hear_approval(self, word: Approval) -> Said:
        """A tool may give every step the same id; ``approved`` is for whoever names none."""
        answer = hear(self._answers, f"{names.APPROVE} {word.step}", word, self._approve)
        if answer.applied and word.request_id:
            self._approved_by.keep(word.request_id, word.step)
        return answer

    def _hear_close(self, word: Say) -> Said:
        return hear(self._answers, names.CLOSE, word, self._close)

    def _overhear(self, word: object, form: type[WordT], hear_: Callable[[WordT], Said]) -> None:
        try:
            answer = hear_(said(word, form))
        except ValueError as error:
            answer = Said(applied=False, message=str(error))
        if not answer.applied:
            self._refused = [*self._refused, answer.message][-REFUSALS_KEPT:]

    def _approve(self, word: Approval) -> Said:
        if any(done.step is word.step for done in self._done) or self._doing is word.step:
            return Said(applied=True, message=f"{word.step} was approved before")
        if self._is_closed:
            return Said(applied=False, message="the incident is closed")
        if self._doing is not None:
            return Said(applied=False, message=f"{self._doing} is under way; wait for its end")
        if word.step is not self._waiting_for:
            next_ = f"the next step is {self._waiting_for}, not {word.step}"
            return Said(applied=False, message=f"{next_}: the order cannot be skipped")
        self._approval = word
        return Said(applied=True, message=f"{word.step} begins")

    def _close(self, word: Say) -> Said:
        if self._doing is not None and self._doing is not Step.REPLAY:
            return Said(applied=False, message=f"{self._doing} is under way; wait for its end")
        self._closed = self._closed or word
        if any(done.step is Step.RESUME for done in self._done):
            return Said(applied=True, message="closed")
        still = (
            f"closed; resume was not done, so the gate of {self._request.partition} stays as it is"
        )
        return Said(applied=True, message=still)
