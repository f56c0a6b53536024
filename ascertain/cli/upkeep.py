"""``ascertain sweep``, ``restored`` and ``audit verify``: the whole ledger."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import typer
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import FailureError

from ascertain.cli import option, output, place, wording
from ascertain.cli.failure import NotOver, leaving
from ascertain.cli.text import counted
from ascertain.cli.waking import wake
from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.effect import UNRESOLVED, State
from ascertain.contracts.epoch import EpochRequest
from ascertain.contracts.sweep import SweepReport, SweepRequest
from ascertain.errors import BrokenChain, NotFound, Unavailable
from ascertain.ledger.audit import verify_chain
from ascertain.ports import EffectFilter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from ascertain.cli.place import Place
    from ascertain.contracts.effect import AuditEvent, EffectRow
    from ascertain.ledger.postgres import PostgresLedger

# Tasks that ask by themselves, but some of them only in hours.
_WAITING: Final = (
    f"ExecutionStatus = 'Running' AND {names.TASK_STATE} IN "
    f"({', '.join(repr(state.value) for state in sorted(UNRESOLVED - {State.IN_FLIGHT}))})"
)
_LOOKS: Final = 3

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Restore:
    """A restore as it was typed."""

    since: datetime
    until: datetime | None
    operator: str
    reason: str
    request_id: str | None

    def request(self) -> EpochRequest:
        """What is asked of the ledger."""
        return EpochRequest(
            since=self.since,
            until=self.until,
            by=self.operator,
            reason=self.reason,
            request_id=option.request_id(self.request_id),
        )


async def sweep(within: timedelta | None, config: Path | None, *, as_json: bool) -> None:
    """Run a sweep and print what it found.

    Raises:
        NotOver: It is not over in time; it goes on.
    """
    where = place.find(config)
    request = SweepRequest(older_than=timedelta(0))
    report = await run_now(where, names.SWEEP_WORKFLOW, request, SweepReport, within)
    if as_json:
        output.document(report.model_dump(mode="json"))
    else:
        show(report)


def show(report: SweepReport) -> None:
    """Print what a sweep found."""
    output.line(_swept(report))
    for effect_id in report.orphans:
        if effect_id not in report.unasked:
            output.line(f"  {effect_id} is asked for now")
    for effect_id, task_id in report.unasked.items():
        output.line(
            f"  {effect_id} is asked for once its task {task_id} is submitted again, for Temporal has "
            "forgotten what it was"
        )
    if report.failed:
        output.line(
            f"{report.failed} could not be looked into; the next sweep comes to them again."
        )
        output.lines(f"  {fault}" for fault in report.faults)


def _swept(report: SweepReport) -> str:
    if not report.looked_at:
        return "Nothing is unresolved that could be looked at now."
    looked = (
        f"{counted(report.looked_at, 'unresolved effect was', 'unresolved effects were')} looked at"
    )
    if not report.orphaned:
        return f"{looked}; each is pursued by its task's workflow."
    return f"{looked}; of {report.orphaned} the workflow is gone."


async def restored(wish: Restore, config: Path | None, *, as_json: bool) -> None:
    """Raise an epoch and print it.

    Raises:
        LedgerDown: It is not known whether it is raised; the same request id is applied once.
        BadParameter: The backup is younger than now.
    """
    if wish.since > datetime.now(UTC):
        raise typer.BadParameter("--since lies in the future: name the time of the backup")
    where = place.find(config)
    async with where.ledger() as ledger:
        epoch = await ledger.raise_epoch(wish.request())
    told, why = await wake(where, _WAITING, lambda client, task: client.reconcile_now(task))
    if as_json:
        output.document({"epoch": epoch.model_dump(mode="json"), "told": told})
        return
    output.line(
        f"The backup is of {wording.moment(epoch.since)}. "
        f"What was begun before {wording.moment(epoch.until)} "
        "and is not known here is asked for before it is sent, and so is what was proven absent before."
    )
    if epoch.already_applied:
        output.line("This request had been applied before, so nothing was changed now.")
    if told is not None:
        tasks = counted(told, "task that waits was", "tasks that wait were")
        output.line(f"{tasks} told to ask again, which they do once workers run.")
    if why:
        output.note(
            f"Not every task that waits was told to ask again ({why}): give the same again."
        )


async def verify(task_id: str | None, config: Path | None, *, as_json: bool) -> int:
    """Check every trail's chain and print those that are broken.

    Returns:
        0, or 12 if one is not what was written.

    Raises:
        NotFound: The ledger has no effect of the task.
    """
    checked, broken = 0, list[BrokenChain]()
    async with place.find(config).ledger() as ledger:
        async for row, trail in _trails(ledger, task_id):
            checked += 1
            fault = await _fault(ledger, row, trail)
            if fault is not None:
                broken.append(fault)
    if task_id is not None and not checked:
        raise NotFound(f"the ledger has no effect of a task {task_id}, so no trail was checked")
    if as_json:
        told = [{"effect_id": one.effect_id, "seq": one.seq, "why": str(one)} for one in broken]
        output.document({"checked": checked, "broken": told})
    else:
        output.lines(str(one) for one in broken)
        said = (
            "every chain holds"
            if not broken
            else (f"{counted(len(broken), 'is', 'are')} not what was written")
        )
        looked = counted(checked, "audit trail was", "audit trails were")
        output.line(f"{looked} checked; {said}.")
    return BrokenChain.exit_code if broken else 0


async def _trails(
    ledger: PostgresLedger, task_id: str | None
) -> AsyncIterator[tuple[EffectRow, Sequence[AuditEvent]]]:
    if task_id is None:
        async for row, trail in ledger.upkeep.trails():
            yield row, trail
        return
    for row in await ledger.effects(EffectFilter.of_task(task_id)):
        yield row, await ledger.audit(row.effect_id)


async def _fault(
    ledger: PostgresLedger, row: EffectRow, trail: Sequence[AuditEvent]
) -> BrokenChain | None:
    """What is wrong with a trail, and still is at the next looks: an effect may move between two reads."""
    fault: BrokenChain | None = None
    for _ in range(_LOOKS):
        try:
            verify_chain(trail, row)
        except BrokenChain as found:
            fault = found
        else:
            return None
        case = await ledger.inspect(row.effect_id)
        row = case.row if case is not None else row
        trail = await ledger.audit(row.effect_id)
    return fault


async def run_now(
    where: Place, workflow: str, argument: object, result: type[ResultT], within: timedelta | None
) -> ResultT:
    """Have a workflow of the schedules run once now, and give what it came to.

    Raises:
        NotOver: It is not over in time; it goes on.
        Unavailable: It failed.
    """
    client = (await where.client()).temporal
    queue = where.settings.task_queue
    workflow_id = f"{workflow.lower()}-now-{queue}-{uuid4().hex[:8]}"
    with (
        leaving(f"If it was started, it goes on: {_where(workflow_id)}."),
        answered(f"start {workflow_id}"),
    ):
        handle: Any = await client.start_workflow(
            workflow,
            argument,
            id=workflow_id,
            task_queue=queue,
            result_type=result,
            execution_timeout=timedelta(hours=1),
            rpc_timeout=RPC_TIMEOUT,
        )
    try:
        with leaving(f"Only the wait is over, and it goes on: {_where(workflow_id)}."):
            async with asyncio.timeout(None if within is None else within.total_seconds()):
                with answered(f"wait for {workflow_id}"):
                    found: ResultT = await handle.result()
                    return found
    except WorkflowFailureError as error:
        raise Unavailable(f"{workflow_id} failed: {_cause(error)}") from error
    except TimeoutError:
        raise NotOver(
            f"{workflow_id} is not over yet, and goes on: {_where(workflow_id)}"
        ) from None


def _where(workflow_id: str) -> str:
    """Where its result will be."""
    return f"`temporal workflow result --workflow-id {workflow_id}` waits for what it comes to"


def _cause(error: BaseException) -> str:
    """The innermost words: the outer ones only say that something failed."""
    inner = error
    while isinstance(inner, WorkflowFailureError | FailureError) and inner.cause is not None:
        inner = inner.cause
    return str(inner)
