"""Whether one effect came out right: the outside's books against the ledger's audit trail. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ascertain.contracts.effect import TERMINAL, State
from ascertain.errors import BrokenChain
from ascertain.ledger.audit import verify_chain
from ascertain.machine import ACTOR, Actor, Move, next_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ascertain.contracts.effect import AuditEvent, EffectRow
    from ascertain.testing.entry import Fact, SubmitEntry

REFUSED_WRITE: Final = "refused_write"
# What is written down beside the moves: it changes nothing.
OBSERVED: Final = frozenset({REFUSED_WRITE, "note"})


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything that is known of one effect afterwards, from two sides that do not know each other.

    Attributes:
        row: What the ledger holds; None if it was never claimed.
        events: Its audit trail, oldest first.
        facts: What really exists outside, by the outside's own books.
        submits: Every request to do it that the outside received.
    """

    effect_id: str
    row: EffectRow | None
    events: Sequence[AuditEvent]
    facts: Sequence[Fact]
    submits: Sequence[SubmitEntry]

    @property
    def moves(self) -> list[str]:
        """The names of what was written down, oldest first."""
        return [event.move for event in self.events]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one effect must have come to.

    Attributes:
        state: Where it must stand; final.
        facts: How many must exist outside: 1, or 0 where it was refused or given up.
        message_id: The message that must be found with it.
        late_write: A fenced owner must have been refused, and what it knew kept.
        most_submits: The outside may have received at most so many requests; None: one per claim.
        alone: No person may have been needed.
        moves: These must be in the audit trail.
    """

    state: State = State.SETTLED
    facts: int = 1
    message_id: str | None = None
    late_write: bool = False
    most_submits: int | None = None
    alone: bool = False
    moves: frozenset[str] = frozenset()


def faults(trace: Trace, expected: Expectation) -> list[str]:
    """A sentence for everything that is not as it must be; empty if all is right."""
    return [*_outside(trace, expected), *_standing(trace, expected), *_trail(trace, expected)]


def _outside(trace: Trace, expected: Expectation) -> Iterator[str]:
    made = len(trace.facts)
    if made != expected.facts:
        ids = ", ".join(fact.id for fact in trace.facts) or "none"
        yield f"{made} facts outside ({ids}) instead of {expected.facts}"
    claims = sum(map(_claims, _moved(trace.events)))
    most = claims if expected.most_submits is None else expected.most_submits
    if len(trace.submits) > most:
        yield f"the outside received {len(trace.submits)} requests; at most {most} were permitted"


def _standing(trace: Trace, expected: Expectation) -> Iterator[str]:
    row = trace.row
    if row is None:
        yield "the ledger does not know it"
        return
    if row.state not in TERMINAL:
        yield f"it is left between states: {row.state} ({row.evidence.detail or row.evidence.rule})"
    elif row.state is not expected.state:
        yield f"it is {row.state} instead of {expected.state}"
    if row.state is State.SETTLED and row.external_id not in {fact.id for fact in trace.facts}:
        yield f"it is SETTLED by {row.external_id}, which the outside does not have under its id"
    if expected.message_id is not None and row.message_id != expected.message_id:
        yield f"message {expected.message_id} is not found with it but {row.message_id}"


def _trail(trace: Trace, expected: Expectation) -> Iterator[str]:
    yield from illegal(trace.events)
    if expected.late_write and REFUSED_WRITE not in trace.moves:
        yield "the late write of a fenced owner is not in the audit trail"
    for move in sorted(expected.moves - set(trace.moves)):
        yield f"{move} is not in the audit trail"
    if expected.alone and by_person(trace):
        yield f"a person was needed: {', '.join(by_person(trace))}"
    if trace.row is None:
        return
    try:
        verify_chain(trace.events, trace.row)
    except BrokenChain as error:
        yield str(error)


def by_person(trace: Trace) -> list[str]:
    """The moves that a person made."""
    return [event.move for event in _moved(trace.events) if ACTOR[Move(event.move)] is Actor.PERSON]


def illegal(events: Sequence[AuditEvent]) -> Iterator[str]:
    """A sentence for every recorded move that the machine does not allow or that goes backwards."""
    state: State | None = None
    version = lease_version = attempt = 0
    for event in _moved(events):
        where = f"event {event.seq} ({event.move})"
        to_state = next_state(state, Move(event.move))
        if event.from_state is not state or to_state is None or event.to_state is not to_state:
            yield f"{where} goes from {event.from_state} to {event.to_state}; it stood at {state}"
        if event.version != version + 1:
            yield f"{where} takes version {version} to {event.version}"
        if event.lease_version < lease_version or event.attempt < attempt:
            yield f"{where} takes lease_version or attempt back"
        if _claims(event) and event.lease_version == lease_version:
            yield f"{where} enters IN_FLIGHT without a new lease_version"
        state, version = event.to_state, event.version
        lease_version, attempt = event.lease_version, event.attempt


def _claims(event: AuditEvent) -> bool:
    return event.to_state is State.IN_FLIGHT and event.from_state is not State.IN_FLIGHT


def _moved(events: Sequence[AuditEvent]) -> Iterator[AuditEvent]:
    return (event for event in events if event.move not in OBSERVED)
