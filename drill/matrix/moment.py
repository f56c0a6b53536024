"""What happened to one effect, when and where: put together from every side's own record."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ascertain.contracts.effect import State
from drill.acceptance import OBSERVED, REFUSED_WRITE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ascertain.contracts.effect import AuditEvent
    from drill.matrix.result import Result


class Lane(StrEnum):
    """Whose record it is."""

    MESSAGE = "message"
    WORKER = "worker"
    OUTSIDE = "outside"
    LEDGER = "ledger"


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened.

    Attributes:
        mark: ``T0`` delivered · ``T1`` claimed · ``T2`` received outside · ``T3`` the fact exists · ``T4``
            an outcome was written down (or refused) · ``T5`` the effect is closed; empty for the rest.
    """

    at: datetime
    lane: Lane
    what: str
    mark: str = ""


def moments(result: Result) -> list[Moment]:
    """Everything that is recorded of one cell, in the order of time."""
    return sorted(_told(result), key=lambda moment: moment.at)


def _told(result: Result) -> Iterator[Moment]:
    trace = result.trace
    delivered = False
    for note in sorted(result.notes, key=lambda note: note.at):
        first = note.what.startswith("delivered") and not delivered
        delivered = delivered or first
        yield Moment(note.at, Lane(note.lane), note.what, "T0" if first else "")
    for number, submit in enumerate(trace.submits, 1):
        mark = "T2" if number == 1 else ""
        yield Moment(submit.at, Lane.OUTSIDE, f"request received: {submit.ruling}", mark)
    for fact in trace.facts:
        yield Moment(fact.committed_at, Lane.OUTSIDE, f"{fact.id} exists", "T3")
    for event in trace.events:
        yield _written(event, first=event.seq == 1)


def _written(event: AuditEvent, *, first: bool) -> Moment:
    where = f"{event.from_state or 'no row'} to {event.to_state}"
    if event.move in OBSERVED:
        where = "changes nothing"
    detail = f"{event.move}: {where}, lease {event.lease_version}, by {event.actor}"
    return Moment(event.at, Lane.LEDGER, detail, _mark(event, first=first))


def _mark(event: AuditEvent, *, first: bool) -> str:
    if first:
        return "T1"
    if event.move == REFUSED_WRITE:
        return "T4"
    return "T5" if event.to_state is State.SETTLED and event.move not in OBSERVED else ""
