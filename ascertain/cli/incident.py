"""``ascertain incident open``, ``status``, ``approve`` and ``close``."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer
from pydantic import ValidationError

from ascertain.cli import acquaintance, output, place, shape, wording
from ascertain.cli.failure import asked_once
from ascertain.cli.gate_command import EVERY
from ascertain.cli.replay import operations, print_tally, tell
from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.fault import faults
from ascertain.contracts.gate import Position
from ascertain.contracts.incident import PREFIX, Approval, IncidentRequest, Step
from ascertain.contracts.replay import Tally
from ascertain.errors import AlreadyOver, AscertainError, CommandRefused, NotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta
    from pathlib import Path

    from ascertain.cli.place import Place
    from ascertain.contracts.gate import Gate
    from ascertain.contracts.incident import IncidentStatus
    from ascertain.contracts.replay import Say
    from ascertain.operation import Operations


async def open_(
    partition: str,
    operator: str,
    reason: str,
    pace: dict[str, float | None],
    ramp: timedelta | None,
    config: Path | None,
    *,
    as_json: bool,
) -> None:
    """Open an incident.

    Raises:
        Conflict: The partition has one that is not closed.
    """
    try:
        request = IncidentRequest.model_validate(
            {
                "operator": operator,
                "reason": reason,
                "partition": partition,
                "pace": pace,
                "ramp": ramp,
            }
        )
    except ValidationError as error:
        raise typer.BadParameter(faults(error)) from None
    where = place.find(config)
    await (await operations(where)).open_incident(request)
    await acquaintance.note_if_unheard_of(where, partition=partition)
    if as_json:
        output.document({"incident_id": request.incident_id, **request.model_dump(mode="json")})
        return
    output.line(f"Incident {request.incident_id} is open; partition {partition} is being paused.")
    output.line(f"`ascertain incident status {partition}` says which step waits for approval.")


async def status(partition: str, config: Path | None, *, as_json: bool) -> None:
    """Print where the incident stands.

    Raises:
        NotFound: The partition has none.
    """
    where = place.find(config)
    found = await (await operations(where)).incident_status(f"{PREFIX}{partition}")
    (gates, tally), now = await _stand(where, found.replay_id), datetime.now(UTC)
    found = found if tally is None else found.model_copy(update={"tally": tally})
    gate, every = gates.get(partition), gates.get(EVERY)
    if as_json:
        told = {"gate": _document(gate, now), "gate_of_all": _document(every, now)}
        output.document({**found.model_dump(mode="json"), **told})
        return
    output.line(f"Incident {found.incident_id} of {found.operator}: {found.reason}.")
    output.table(
        ("step", "", "approved by", "at", "what it came to"),
        [_step(found, step) for step in Step],
    )
    if found.tally is not None and found.replay_id is not None:
        output.line(f"replay {found.replay_id}")
        print_tally(found.tally)
    output.lines(f"refused: {words}" for words in found.refused)
    output.lines(_stands(found, gate, now))
    output.lines(_all_stand(every, now))
    output.lines(_next(found, gate))


async def approve(
    partition: str,
    step: str | None,
    word: Say,
    config: Path | None,
    *,
    as_json: bool,
) -> None:
    """Let the step that waits begin.

    Raises:
        CommandRefused: Another step is next, or none waits.
        NotFound: The partition has no open incident.
        TemporalDown: It is not known whether it begins.
    """
    asked = await operations(place.find(config))
    incident_id = f"{PREFIX}{partition}"
    meant = _meant(await asked.incident_status(incident_id), word) if step is None else Step(step)
    approval = Approval(**word.model_dump(), step=meant)
    message = await tell(asked, incident_id, names.APPROVE, approval)
    _print(incident_id, message, word, as_json=as_json)


def _meant(found: IncidentStatus, word: Say) -> Step:
    """The step that waits; of a request that comes again, the step that it has approved."""
    step = found.approved.get(word.request_id or "", found.waiting_for)
    if step is None:
        raise CommandRefused(f"{found.incident_id}: no step waits for approval: {_why(found)}")
    return step


async def close(partition: str, word: Say, config: Path | None, *, as_json: bool) -> None:
    """End the incident.

    Raises:
        CommandRefused: A step is under way.
        NotFound: The partition has no open incident.
        TemporalDown: It is not known whether it is closed.
    """
    asked = await operations(place.find(config))
    incident_id = f"{PREFIX}{partition}"
    try:
        message = await tell(asked, incident_id, names.CLOSE, word)
    except AlreadyOver:
        if not await _was_closed_by(asked, incident_id, word):
            raise
        message = "closed by this request before, so nothing was changed now"
    _print(incident_id, message, word, as_json=as_json)


async def _was_closed_by(asked: Operations, incident_id: str, word: Say) -> bool:
    """Whether an incident that is over was closed under this request id; False where nobody tells."""
    try:
        closed = (await asked.incident_status(incident_id)).closed
    except (NotFound, Unavailable):
        return False
    return closed is not None and closed.request_id == word.request_id


async def beside(where: Place, partition: str | None) -> list[tuple[dict[str, object], str]]:
    """The open incidents of a partition, or of all, whose gate somebody opens by hand.

    Returns:
        Each for machines and in words; those of which nobody can tell are left out.
    """
    try:
        named = [partition] if partition is not None else await _with_incident(where)
        found = await asyncio.gather(*(_under_way(where, name) for name in named))
    except Unavailable:
        return []
    return [each for each in found if each is not None]


async def _with_incident(where: Place) -> list[str]:
    """The partitions that have an incident which is not closed; visibility lags by about a second."""
    client = await where.client()
    query = (
        f"WorkflowType = '{names.INCIDENT_WORKFLOW}' AND ExecutionStatus = 'Running' "
        f"AND TaskQueue = '{client.task_queue}'"
    )
    with answered("list incidents"):
        open_yet = client.temporal.list_workflows(query, rpc_timeout=RPC_TIMEOUT)
        return sorted([one.id.removeprefix(PREFIX) async for one in open_yet])


async def _under_way(where: Place, partition: str) -> tuple[dict[str, object], str] | None:
    incident_id = f"{PREFIX}{partition}"
    try:
        found = await (await operations(where)).incident_status(incident_id)
    except (NotFound, Unavailable):
        return None
    if found.closed is not None:
        return None
    step = found.waiting_for or found.doing
    stands = f"its step {step} {'waits for approval' if found.waiting_for else 'is under way'}"
    if step is None:
        stands = "every step is done"
    told: dict[str, object] = {
        "incident_id": incident_id,
        "waiting_for": found.waiting_for,
        "doing": found.doing,
    }
    return told, (
        f"{incident_id} is open and goes on: {stands}; `ascertain incident status {partition}` says what "
        "can be done about it."
    )


async def _stand(where: Place, replay_id: str | None) -> tuple[dict[str, Gate], Tally | None]:
    """By partition, the gates that were ever closed, and the items of the replay as they stand now.

    Nothing where no ledger can tell: the incident itself knows the items of its dry run, and of its end.
    """
    if not where.has_ledger:
        return {}, None
    try:
        async with where.ledger() as ledger:
            gates = {gate.partition: gate for gate in await ledger.gates()}
            tally = Tally() if replay_id is None else await ledger.replays.tally(replay_id)
    except AscertainError as error:
        output.note(f"How its gate stands is not known ({asked_once(error)}).")
        return {}, None
    return gates, tally if tally.items else None


def _document(gate: Gate | None, now: datetime) -> dict[str, object] | None:
    return None if gate is None else shape.gate_document(gate, now)


def _stands(found: IncidentStatus, gate: Gate | None, now: datetime) -> Iterable[str]:
    """How the gate stands now, whatever the steps came to; and that somebody opened it beside them."""
    if gate is None:
        return
    yield shape.gate_words(gate, now)
    done = {one.step for one in found.done}
    by_resume = Step.RESUME in done or found.doing is Step.RESUME
    if found.closed is None and Step.PAUSE in done and not by_resume and not gate.paused:
        yield (
            "It was opened beside this incident, so what it held goes on: "
            f'`ascertain pause {found.partition} --reason "WHY"` closes it again.'
        )


def _all_stand(every: Gate | None, now: datetime) -> Iterable[str]:
    """That the gate of all partitions is closed too, or not all open yet."""
    if every is None or every.position(now) is Position.OPEN:
        return
    yield shape.gate_words(every, now)
    if every.paused:
        yield (
            "So nothing of this partition is sent, whatever its own gate and this incident do: "
            '`ascertain resume --all --reason "WHY"` opens it.'
        )


def _why(found: IncidentStatus) -> str:
    """Why none waits, and what comes next."""
    partition = found.partition
    if found.closed is not None:
        by = f"{found.closed.operator} closed it"
        return f"{by}; `ascertain incident open {partition}` opens another"
    if found.doing is not None:
        return f"{found.doing} is under way; `ascertain incident status {partition}` says when it is done"
    return f"every step is done; `ascertain incident close {partition}` ends it"


def _next(found: IncidentStatus, gate: Gate | None) -> Iterable[str]:
    """What can be done about it now."""
    partition = found.partition
    if found.waiting_for is not None:
        yield f'`ascertain incident approve {partition} --reason "WHY"` lets it begin.'
    if found.closed is None and found.waiting_for is None and found.doing is None:
        yield f'`ascertain incident close {partition} --reason "WHY"` ends it.'
    if found.closed is not None:
        yield f"Closed by {found.closed.operator}: {found.closed.reason}."
        resumed = Step.RESUME in {done.step for done in found.done}
        if not resumed and (gate is None or gate.paused):
            yield f"Its step resume was not done: `ascertain resume {partition}` opens the gate."


def _print(incident_id: str, message: str, word: Say, *, as_json: bool) -> None:
    if as_json:
        told = {"applied": True, "message": message, "request_id": word.request_id}
        output.document({"incident_id": incident_id, **told})
    else:
        output.line(f"Incident {incident_id}: {message}.")


def _step(found: IncidentStatus, step: Step) -> tuple[str, str, str, str, str]:
    for done in found.done:
        if done.step is step:
            return step, "done", done.operator, wording.moment(done.at), done.detail
    if found.doing is step:
        return step, "under way", "", "", ""
    waits = "waits for approval" if found.waiting_for is step else ""
    return step, waits, "", "", ""
