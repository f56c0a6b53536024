"""``ascertain show`` and ``ascertain explain``: find out what can be found out, and print it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ascertain.cli import (
    advice,
    case_file,
    held,
    option,
    output,
    place,
    shape,
    standing,
    story,
    wording,
)
from ascertain.cli.acquaintance import KIND, PARTITION
from ascertain.cli.failure import asked_once
from ascertain.cli.known import RUNNING, Known, KnownEffect, Run
from ascertain.cli.text import plain, program
from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.errors import (
    AscertainError,
    Conflict,
    InvalidTask,
    NotFound,
    SetupError,
    TaskEnded,
    TemporalDown,
    Unavailable,
)
from ascertain.ports import EffectFilter

if TYPE_CHECKING:
    from temporalio.client import WorkflowExecutionDescription

    from ascertain.cli.advice import Advice
    from ascertain.cli.place import Place
    from ascertain.client import Client
    from ascertain.contracts.gate import Gate
    from ascertain.contracts.outage import Outage
    from ascertain.contracts.status import TaskStatus
    from ascertain.contracts.task import Task, TaskResult

_ANSWER_WITHIN_S: Final = 5
_FEW_WORDS: Final = 120


@dataclass(frozen=True, slots=True)
class Side:
    """What one of the two places knows of a task.

    Attributes:
        task_id: Whose effect it is, where what was asked for is no task and the id of an effect.
        gaps: Why it knows less than it could.
        exit_code: Of what kept it from being asked at all, so that it knows nothing says nothing; else 0.
    """

    run: Run | None = None
    task_id: str | None = None
    status: TaskStatus | None = None
    result: TaskResult | None = None
    failure: str = ""
    turned_away: bool = False
    task: Task | None = None
    effects: tuple[KnownEffect, ...] = ()
    gaps: tuple[str, ...] = ()
    outages: tuple[Outage, ...] = ()
    gates: tuple[Gate, ...] = ()
    exit_code: int = 0


async def show(task_id: str, config: Path | None, *, as_json: bool) -> int:
    """Print where a task stands, every effect and every attempt of it.

    Returns:
        0, or the exit code of what could not be asked: then this is not the whole case.

    Raises:
        NotFound: There is no such task.
        Unavailable, SetupError: It is not known whether there is one.
    """
    known = await gather(task_id, place.find(config))
    safe_next = advice.safe_next(known, program())
    if as_json:
        output.document(shape.known_document(known, safe_next))
    else:
        _print(known, safe_next)
    return known.exit_code


async def explain(task_id: str, config: Path | None, *, as_json: bool) -> int:
    """Print the case of a task in plain words. Returns and raises like ``show``."""
    known = await gather(task_id, place.find(config))
    told = story.tell(known, program())
    if not as_json:
        output.lines(told.lines())
        return known.exit_code
    output.document(
        {
            "task_id": known.task_id,
            "headline": told.headline,
            "chapters": [
                {"title": chapter.title, "lines": list(chapter.lines)} for chapter in told.chapters
            ],
            "safe_next": shape.advice_document(told.safe_next),
        }
    )
    return known.exit_code


async def report(task_id: str, config: Path | None, out: Path | None, *, as_json: bool) -> int:
    """Write the case file of a task. Returns and raises like ``show``."""
    known = await gather(task_id, place.find(config))
    told = story.tell(known, program())
    html = case_file.render(known, told)
    if out is not None:
        await asyncio.to_thread(option.write, out, html)
    if as_json:
        where = str(out) if out is not None else None
        shown = {"task_id": known.task_id, "headline": told.headline, "file": where}
        output.document(shown | ({} if out is not None else {"html": html}))
    elif out is not None:
        output.line(f"The case file of task {known.task_id} is {out}.")
    else:
        output.line(html.rstrip("\n"))
    return known.exit_code


async def gather(task_id: str, where: Place) -> Known:
    """Ask the task's workflow and the ledger, at the same time; of an effect's id, about its task.

    Raises:
        NotFound: Neither has it, and whoever can be configured was asked.
        Unavailable, SetupError: Neither has it, and one could not be asked.
    """
    temporal, ledger = await asyncio.gather(
        _ask_temporal(task_id, where), _ask_ledger(task_id, where)
    )
    gaps = temporal.gaps + ledger.gaps
    if temporal.run is None and not ledger.effects:
        if codes := {temporal.exit_code, ledger.exit_code} - {0}:
            unknown = SetupError if codes == {SetupError.exit_code} else Unavailable
            raise unknown(f"nothing can be said of task {task_id}: {'; '.join(gaps)}")
        if ledger.task_id is None:
            raise NotFound(f"there is no task {task_id}{f' ({gaps[0]})' if gaps else ''}")
        output.note(f"{task_id} is an effect of task {ledger.task_id}:")
        return await gather(ledger.task_id, where)
    known = Known(
        task_id,
        datetime.now(UTC),
        run=temporal.run,
        status=temporal.status,
        result=temporal.result,
        failure=temporal.failure,
        turned_away=temporal.turned_away,
        task=temporal.task,
        effects=ledger.effects,
        gaps=gaps,
        outages=ledger.outages,
        gates=ledger.gates,
        exit_code=temporal.exit_code or ledger.exit_code,
    )
    return held.as_it_is_now(known)


async def _ask_temporal(task_id: str, where: Place) -> Side:
    try:
        client = await where.client()
        found = await _describe(client, task_id)
    except NotFound:
        return Side()
    except (Unavailable, SetupError) as error:
        return _silent("Temporal", error)
    if found.workflow_type != names.TASK_WORKFLOW:
        return Side(gaps=(f"{task_id} is a workflow of type {found.workflow_type} and no task",))
    run = _run(found)
    told, (task, unread) = await asyncio.gather(
        _told(client, task_id, run), _content(client, task_id)
    )
    return replace(told, task=task, gaps=told.gaps + unread)


async def _content(client: Client, task_id: str) -> tuple[Task | None, tuple[str, ...]]:
    """What the task was started with, or why that cannot be read here."""
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            return await client.starting.content(task_id), ()
    except InvalidTask:
        why = "it is encrypted under keys that are not here, or was no task as JSON"
    except (TimeoutError, AscertainError) as error:
        why = str(error) or f"it did not come within {_ANSWER_WITHIN_S} s"
    return None, (f"The task's input cannot be read: {why}",)


async def _told(client: Client, task_id: str, run: Run) -> Side:
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            if run.state == RUNNING:
                return Side(run, status=await client.status(task_id))
            if run.state == "COMPLETED":
                return Side(run, result=await client.result(task_id))
            return await _failed(client, task_id, run) if run.state == "FAILED" else Side(run)
    except (TimeoutError, AscertainError) as error:
        why = str(error) or f"nobody did within {_ANSWER_WITHIN_S} s"
        silent = TemporalDown.exit_code if run.state == RUNNING else 0
        return Side(run, gaps=(f"No worker answered for the task: {why}",), exit_code=silent)


async def _failed(client: Client, task_id: str, run: Run) -> Side:
    """Why it failed."""
    try:
        await client.result(task_id)
    except (Conflict, InvalidTask, TaskEnded) as error:
        why = str(error).removeprefix(f"task {task_id}: ").removeprefix(f"task {task_id} failed: ")
        return Side(run, failure=why, turned_away=not isinstance(error, TaskEnded))
    return Side(run)  # it was begun again meanwhile, and is over


async def _describe(client: Client, task_id: str) -> WorkflowExecutionDescription:
    with answered(f"look at task {task_id}"):
        return await client.temporal.get_workflow_handle(task_id).describe(rpc_timeout=RPC_TIMEOUT)


def _run(found: WorkflowExecutionDescription) -> Run:
    labels = found.typed_search_attributes
    return Run(
        run_id=found.run_id,
        state=found.status.name if found.status is not None else "",
        kind=labels.get(KIND, ""),
        partition=labels.get(PARTITION, ""),
        started_at=found.start_time,
        closed_at=found.close_time,
    )


async def _ask_ledger(task_id: str, where: Place) -> Side:
    if not where.has_ledger and where.stopped is None:
        return Side(gaps=("The ledger was not asked, because none is configured.",))
    try:
        async with where.ledger() as ledger:
            rows = await ledger.effects(EffectFilter.of_task(task_id))
            case = None if rows else await ledger.inspect(task_id)
            ordered = sorted(rows, key=lambda row: row.created_at)
            trails = [tuple(await ledger.audit(row.effect_id)) for row in ordered]
            outages, gates = tuple(await ledger.outages()), tuple(await ledger.gates())
    except AscertainError as error:
        return _silent("The ledger", error)
    pairs = zip(ordered, trails, strict=True)
    effects = tuple(KnownEffect(row, trail) for row, trail in pairs)
    task_of = None if case is None else case.row.task_id
    return Side(task_id=task_of, effects=effects, outages=outages, gates=gates)


def _silent(part: str, error: AscertainError) -> Side:
    """What could not be asked at all knows nothing, which says nothing."""
    return Side(gaps=(f"{part}: {asked_once(error)}",), exit_code=error.exit_code)


def _print(known: Known, safe_next: tuple[Advice, ...]) -> None:
    output.line(story.headline(known))
    if known.run is not None:
        run = known.run
        output.line(
            f"Workflow {run.state}, run {run.run_id}, since {wording.moment(run.started_at)}."
        )
    if known.kind:
        output.line(f"Kind {known.kind}, partition {known.partition}.")
    opened = known.status.open if known.status is not None else None
    if opened is not None and opened.doing == advice.HELD:
        output.line(wording.sentence("Held", opened.reason))
    obstacle = advice.obstacle(known)
    if obstacle:
        output.line(wording.sentence("It cannot go on", obstacle))
    output.lines(story.closed_gates(known))
    for effect in known.effects:
        _print_effect(known, effect)
    for gap in known.gaps:
        output.line()
        output.line(plain(gap))
    if known.exit_code:
        output.line(advice.INCOMPLETE)
    output.line()
    output.line("Safe next:" if safe_next else "Nothing needs to be done.")
    for item in safe_next:
        output.line(f"  {item.command}")
        if item.needless:
            output.line(f"      {item.meaning}")


def _print_effect(known: Known, effect: KnownEffect) -> None:
    row = effect.row
    output.line()
    output.line(f"Step {row.step}: {row.state} since {wording.moment(row.state_since)}")
    output.line(f"  {standing.sentence(known, effect)}")
    facts = {
        "effect": row.effect_id,
        "kind": row.kind,
        "input": wording.content(known.input_of(effect)),
        "version": str(row.version),
        "attempts": standing.attempts(effect),
        "exists as": row.external_id,
        "job": row.job_id,
        "error class": "" if row.state is State.SETTLED else row.error_class,
        "reason": row.evidence.detail or row.evidence.rule,
        "trace": row.trace_id,
    }
    output.lines(f"  {name:<12}{plain(value)}" for name, value in facts.items() if value)
    output.table(
        ("attempt", "at", "by", "what", "answer"),
        [
            (
                str(event.attempt),
                wording.moment(event.at),
                wording.worker(event.actor),
                event.evidence.rule if event.move == wording.NOTE else event.move,
                plain(event.evidence.detail or event.evidence.rule)[:_FEW_WORDS],
            )
            for event in effect.trail
        ],
        indent=2,
    )
