"""What becomes of a gate, and whom it stops: pure functions."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ascertain.contracts import breaker
from ascertain.contracts.claim import Paused, Turn
from ascertain.contracts.effect import State
from ascertain.contracts.gate import Gate
from ascertain.errors import CommandRefused
from ascertain.ledger import write as writes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ascertain.contracts.breaker import Trip
    from ascertain.contracts.effect import EffectRow
    from ascertain.contracts.gate import GateChange

# A turn is decided by so many bytes of the digest of the effect's id.
_TURN_BYTES: Final = 4
_FAILED: Final = frozenset({State.UNKNOWN, State.CLEAR, State.QUARANTINED, State.TAKEN_OVER})


def changed(gate: Gate | None, change: GateChange, now: datetime) -> Gate:
    """The gate after a person's request; what a rule closed is theirs from then on.

    What is open for all stays so, whatever ramp is asked for; what opens little by little obeys the newest
    request.
    """
    if gate is not None and _stays(gate, change, now):
        return gate
    ramps = gate is not None and change.ramp is not None
    return Gate(
        partition=change.partition,
        paused=change.paused,
        since=now,
        by=writes.clean(change.by),
        reason=writes.clean(change.reason),
        ramp_until=now + change.ramp if ramps and change.ramp is not None else None,
    )


def repeated(change: GateChange, partition: str, *, paused: bool) -> None:
    """Let in what its request id was used for, which was the position ``paused`` of a partition's gate.

    Raises:
        CommandRefused: It is another command.
    """
    if (change.partition, change.paused) != (partition, paused):
        used, given = _words(partition, paused), _words(change.partition, change.paused)
        raise CommandRefused(
            f"request id {change.request_id} was used for {used}; {given} was not applied: give another id"
        )


def _words(partition: str, paused: bool) -> str:  # noqa: FBT001  # the two parts of a command
    which = "every partition" if partition == "*" else f"partition {partition}"
    return f"{'pause' if paused else 'resume'} of {which}"


def _stays(gate: Gate, change: GateChange, now: datetime) -> bool:
    opening = gate.ramp_until is not None and gate.ramp_until > now
    return gate.paused is change.paused and gate.rule is None and not opening


def turn_of(effect_id: str, since: datetime, until: datetime) -> datetime:
    """When an effect's turn comes in a gate that opens from ``since`` to ``until``; its id decides."""
    digest = hashlib.sha256(effect_id.encode()).digest()[:_TURN_BYTES]
    length = (until - since) // timedelta.resolution
    return since + timedelta.resolution * (length * int.from_bytes(digest) // 256**_TURN_BYTES)


def stops(gate: Gate, effect_id: str, now: datetime) -> bool:
    """Whether a gate keeps the effect from dispatching, if it does not let it through to probe."""
    if gate.paused or gate.ramp_until is None:
        return gate.paused
    return turn_of(effect_id, gate.since, gate.ramp_until) > now


def paused(gate: Gate, effect_id: str, now: datetime) -> Paused:
    """What a gate answers to an effect that it keeps from dispatching."""
    return Paused(
        gate.partition,
        gate.since,
        gate.by,
        gate.reason,
        half_open=bool(gate.probing),
        turn=_turn(gate, effect_id, now),
        closed_for=now - gate.since,
    )


def _turn(gate: Gate, effect_id: str, now: datetime) -> Turn | None:
    if gate.paused or gate.ramp_until is None:
        return None
    at = turn_of(effect_id, gate.since, gate.ramp_until)
    return Turn(at=at, wait=at - now, until=gate.ramp_until, share=gate.share(now))


def tripped(gate: Gate | None, trip: Trip, now: datetime) -> Gate | None:
    """The gate after a rule closed it; None if it stays as it is."""
    if gate is not None and gate.paused and not (trip.lasts and gate.rule is not None):
        return None
    if gate is not None and not gate.paused and gate.since > now - trip.counted_for:
        return None
    return Gate(
        partition=trip.partition,
        paused=True,
        since=gate.since if gate is not None and gate.paused else now,
        by=breaker.BY,
        reason=writes.clean(trip.reason),
        rule=trip.rule,
        probes=trip.probes,
        probe_after=trip.probe_after,
        probe_from=now + trip.probe_after,
    )


def let_through(gate: Gate, effect_id: str, now: datetime) -> Gate | None:
    """The gate after a claim that it let through to probe; None if it lets none through."""
    due = gate.paused and gate.rule is not None and gate.probe_from is not None
    if not due or gate.probe_from is None or gate.probe_from > now:
        return None
    if len(gate.probing) >= gate.probes or effect_id in gate.probing:
        return None
    return gate.model_copy(update={"probing": (*gate.probing, effect_id)})


def judged(gate: Gate, rows: Mapping[str, EffectRow], now: datetime) -> Gate | None:
    """The gate after a look at what it let through; None if that changes nothing."""
    if not (gate.paused and gate.rule is not None and gate.probing) or gate.probe_after is None:
        return None
    probes = [rows[name] for name in gate.probing if name in rows]
    failed = [row for row in probes if row.state in _FAILED and not _stopped_by_budget(row)]
    if failed:
        row = min(failed, key=lambda row: row.effect_id)
        said, _, _ = gate.reason.partition("; probe ")
        why = f"{said}; probe {row.effect_id} came to {row.state}"
        again = {"probing": (), "probe_from": now + gate.probe_after, "reason": why}
        return gate.model_copy(update=again)
    tried = tuple(row.effect_id for row in probes if row.state is not State.QUARANTINED)
    answered = sum(row.state not in {State.IN_FLIGHT, State.QUARANTINED} for row in probes)
    if answered >= gate.probes:
        return Gate(
            partition=gate.partition,
            paused=False,
            since=now,
            by=breaker.BY,
            reason=f"its probes were answered: {answered} of {gate.probes}",
        )
    return None if tried == gate.probing else gate.model_copy(update={"probing": tried})


def _stopped_by_budget(row: EffectRow) -> bool:
    return row.state is State.QUARANTINED and row.error_class == "budget"
