"""``ascertain incident open``, ``status``, ``approve`` and ``close``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from pydantic import ValidationError

from ascertain.cli import output, place, wording
from ascertain.cli.replay import operations, print_tally, said
from ascertain.contracts import names
from ascertain.contracts.incident import PREFIX, Approval, IncidentRequest, Step
from ascertain.errors import CommandRefused, NotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta
    from pathlib import Path

    from ascertain.cli.place import Place
    from ascertain.contracts.incident import IncidentStatus


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
        fault = error.errors(include_input=False, include_url=False)[0]
        name = ".".join(str(part) for part in fault["loc"])
        raise typer.BadParameter(f"{name}: {fault['msg']}") from None
    await (await operations(place.find(config))).open_incident(request)
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
    found = await (await operations(place.find(config))).incident_status(f"{PREFIX}{partition}")
    if as_json:
        output.document(found.model_dump(mode="json"))
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
    output.lines(_next(found))


async def approve(
    partition: str,
    step: str | None,
    operator: str,
    reason: str,
    config: Path | None,
    *,
    as_json: bool,
) -> None:
    """Let the step that waits begin.

    Raises:
        CommandRefused: Another step is next, or none waits.
        NotFound: The partition has no open incident.
    """
    asked = await operations(place.find(config))
    incident_id = f"{PREFIX}{partition}"
    if step is None:
        found = await asked.incident_status(incident_id)
        if found.waiting_for is None:
            raise CommandRefused(f"{incident_id}: no step waits for approval: {_why(found)}")
        step = found.waiting_for
    word = Approval(**said(operator, reason).model_dump(), step=Step(step))
    message = await asked.say(incident_id, names.APPROVE, word)
    _print(incident_id, message, as_json=as_json)


async def close(
    partition: str, operator: str, reason: str, config: Path | None, *, as_json: bool
) -> None:
    """End the incident.

    Raises:
        CommandRefused: A step is under way.
        NotFound: The partition has no open incident.
    """
    asked = await operations(place.find(config))
    incident_id = f"{PREFIX}{partition}"
    message = await asked.say(incident_id, names.CLOSE, said(operator, reason))
    _print(incident_id, message, as_json=as_json)


async def under_way(where: Place, partition: str) -> tuple[dict[str, object] | None, str]:
    """The open incident of a partition whose gate somebody opens by hand, for machines and in words.

    Returns:
        None and no words where none is open, or where nobody can tell.
    """
    incident_id = f"{PREFIX}{partition}"
    try:
        found = await (await operations(where)).incident_status(incident_id)
    except (NotFound, Unavailable):
        return None, ""
    if found.closed is not None:
        return None, ""
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


def _why(found: IncidentStatus) -> str:
    """Why none waits, and what comes next."""
    partition = found.partition
    if found.closed is not None:
        by = f"{found.closed.operator} closed it"
        return f"{by}; `ascertain incident open {partition}` opens another"
    if found.doing is not None:
        return f"{found.doing} is under way; `ascertain incident status {partition}` says when it is done"
    return f"every step is done; `ascertain incident close {partition}` ends it"


def _next(found: IncidentStatus) -> Iterable[str]:
    """What can be done about it now."""
    partition = found.partition
    if found.waiting_for is not None:
        yield f'`ascertain incident approve {partition} --reason "WHY"` lets it begin.'
    if found.closed is None and found.waiting_for is None and found.doing is None:
        yield f'`ascertain incident close {partition} --reason "WHY"` ends it.'
    if found.closed is not None:
        yield f"Closed by {found.closed.operator}: {found.closed.reason}."
        if Step.RESUME not in {done.step for done in found.done}:
            yield f"The partition stays paused until `ascertain resume {partition}`."


def _print(incident_id: str, message: str, *, as_json: bool) -> None:
    if as_json:
        output.document({"incident_id": incident_id, "applied": True, "message": message})
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
