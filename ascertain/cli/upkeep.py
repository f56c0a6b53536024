"""``ascertain sweep``, ``census``, ``restored``, ``audit verify``: the whole ledger, and the outside."""

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

from ascertain.cli import output, place, wording
from ascertain.cli.failure import DISAGREES, NotOver
from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.census import Censuses, CensusOrder, CensusReport
from ascertain.contracts.epoch import EpochRequest
from ascertain.contracts.sweep import SweepReport, SweepRequest
from ascertain.errors import BrokenChain, NotFound, Unavailable
from ascertain.ledger.audit import verify_chain
from ascertain.ports import EffectFilter
from ascertain.scheduled import latest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from ascertain.cli.place import Place
    from ascertain.contracts.effect import AuditEvent, EffectRow
    from ascertain.ledger.postgres import PostgresLedger

_MOST_EFFECTS: Final = 1000
_LOOKS: Final = 3

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Wish:
    """Which census is asked for; no kinds: those of the deployment."""

    kinds: tuple[str, ...]
    since: timedelta | None
    within: timedelta | None


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
            request_id=self.request_id or f"cli-{uuid4().hex}",
        )


async def sweep(within: timedelta | None, config: Path | None, *, as_json: bool) -> None:
    """Run a sweep and print what it found.

    Raises:
        NotOver: It is not over in time; it goes on.
    """
    where = place.find(config)
    request = SweepRequest(older_than=timedelta(0))
    report = await _run(where, names.SWEEP_WORKFLOW, request, SweepReport, within)
    if as_json:
        output.document(report.model_dump(mode="json"))
        return
    output.line(
        f"{report.looked_at} unresolved effects were looked at; no workflow pursued {report.orphaned}."
    )
    output.lines(f"  {effect_id} is asked for now" for effect_id in report.orphans)
    if report.failed:
        output.line(
            f"{report.failed} could not be looked into; the next sweep comes to them again."
        )
        output.lines(f"  {fault}" for fault in report.faults)


async def census(wish: Wish, config: Path | None, *, as_json: bool) -> int:
    """Have a census taken and print it.

    Returns:
        0, or 13 if the outside and the ledger disagree.

    Raises:
        NotOver: It is not over in time; it goes on.
        BadParameter: No kind is named, here or in a deployment file.
    """
    where = place.find(config)
    kinds = wish.kinds or tuple(sorted(where.settings.kinds))
    if not kinds:
        raise typer.BadParameter("no deployment file names a kind: say --kind, or --config")
    order = CensusOrder(kinds=kinds, no_older_than=wish.since)
    taken = await _run(where, names.CENSUS_WORKFLOW, order, Censuses, wish.within)
    return _tell(taken.reports, as_json=as_json)


async def last_census(kinds: Sequence[str], config: Path | None, *, as_json: bool) -> int:
    """Print what the newest finished census of the schedule found, of these kinds or of all.

    Returns:
        As ``census``.

    Raises:
        NotFound: The schedule has finished none, or there is no schedule.
    """
    where = place.find(config)
    found = await latest((await where.client()).temporal, where.settings.task_queue)
    if found is None:
        raise NotFound(
            "no census of the schedule is finished yet; `ascertain census` takes one now"
        )
    if not as_json:
        output.line(f"Census of {wording.moment(found.at)}:")
    chosen = [one for one in found.censuses.reports if not kinds or one.kind in kinds]
    return _tell(chosen, as_json=as_json, at=found.at)


def _tell(reports: Sequence[CensusReport], *, as_json: bool, at: datetime | None = None) -> int:
    if as_json:
        taken = {} if at is None else {"at": at.isoformat()}
        output.document({**taken, "censuses": [one.model_dump(mode="json") for one in reports]})
    else:
        _print(reports)
    return DISAGREES if any(one.discrepancies for one in reports) else 0


def _print(reports: Sequence[CensusReport]) -> None:
    output.table(
        (
            "kind",
            "listed",
            "effects",
            "duplicates",
            "rate",
            "at most (95 %)",
            "settled",
            "disagree",
        ),
        [_row(one) for one in reports if one.not_taken is None],
    )
    for one in reports:
        if one.not_taken is not None:
            output.line(f"No census of {one.kind}: {one.not_taken}")
    for one in reports:
        for found in one.discrepancies:
            output.line(f"{found.discord}: {found.effect_id} of {one.kind}: {found.detail}")


def _row(one: CensusReport) -> tuple[str, ...]:
    rate = "" if one.duplicate_effect_rate is None else f"{one.duplicate_effect_rate:.3g}"
    numbers = (one.listed, one.effects, one.duplicates)
    upper = f"{one.duplicate_effect_rate_upper:.3g}"
    disagree = sum(one.count.values())
    return (one.kind, *map(str, numbers), rate, upper, str(one.settled), str(disagree))


async def restored(wish: Restore, config: Path | None, *, as_json: bool) -> None:
    """Raise an epoch and print it.

    Raises:
        LedgerDown: It is not known whether it is raised; the same request id is applied once.
        BadParameter: The backup is younger than now.
    """
    if wish.since > datetime.now(UTC):
        raise typer.BadParameter("--since lies in the future: name the time of the backup")
    async with place.find(config).ledger() as ledger:
        epoch = await ledger.raise_epoch(wish.request())
    if as_json:
        output.document({"epoch": epoch.model_dump(mode="json")})
        return
    output.line(
        f"The backup is of {wording.moment(epoch.since)}. "
        f"What was begun before {wording.moment(epoch.until)} "
        "and is not known here is asked for before it is sent, and so is what was proven absent before."
    )
    if epoch.already_applied:
        output.line("This request had been applied before, so nothing was changed now.")


async def verify(task_id: str | None, config: Path | None, *, as_json: bool) -> int:
    """Check every trail's chain and print those that are broken.

    Returns:
        0, or 12 if one is not what was written.
    """
    checked, broken = 0, list[BrokenChain]()
    async with place.find(config).ledger() as ledger:
        async for row, trail in _trails(ledger, task_id):
            checked += 1
            fault = await _fault(ledger, row, trail)
            if fault is not None:
                broken.append(fault)
    if as_json:
        told = [{"effect_id": one.effect_id, "seq": one.seq, "why": str(one)} for one in broken]
        output.document({"checked": checked, "broken": told})
    else:
        output.lines(str(one) for one in broken)
        said = "every chain holds" if not broken else f"{len(broken)} are not what was written"
        output.line(f"{checked} audit trails were checked; {said}.")
    return BrokenChain.exit_code if broken else 0


async def _trails(
    ledger: PostgresLedger, task_id: str | None
) -> AsyncIterator[tuple[EffectRow, Sequence[AuditEvent]]]:
    if task_id is None:
        async for row, trail in ledger.upkeep.trails():
            yield row, trail
        return
    for row in await ledger.effects(EffectFilter(task_id=task_id, limit=_MOST_EFFECTS)):
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


async def _run(
    where: Place, workflow: str, argument: object, result: type[ResultT], within: timedelta | None
) -> ResultT:
    client = (await where.client()).temporal
    queue = where.settings.task_queue
    workflow_id = f"{workflow.lower()}-now-{queue}-{uuid4().hex[:8]}"
    with answered(f"start {workflow_id}"):
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
        async with asyncio.timeout(within.total_seconds() if within else None):
            with answered(f"wait for {workflow_id}"):
                found: ResultT = await handle.result()
                return found
    except WorkflowFailureError as error:
        raise Unavailable(f"{workflow_id} failed: {_cause(error)}") from error
    except TimeoutError:
        raise NotOver(f"{workflow_id} is not over yet; its result will stand in Temporal") from None


def _cause(error: BaseException) -> str:
    """The innermost words: the outer ones only say that something failed."""
    inner = error
    while isinstance(inner, WorkflowFailureError | FailureError) and inner.cause is not None:
        inner = inner.cause
    return str(inner)
