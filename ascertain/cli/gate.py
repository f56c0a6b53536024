"""``ascertain pause``, ``resume`` and ``partitions``: the gates, which stand in the ledger."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ascertain.cli import acquaintance, incident, output, place, shape, wording
from ascertain.cli.change import changing, stands
from ascertain.cli.failure import leaving
from ascertain.cli.gate_command import EVERY
from ascertain.cli.listing import Filter, held as held_tasks
from ascertain.cli.progress import Progress
from ascertain.cli.text import counted
from ascertain.cli.waking import wake
from ascertain.contracts.effect import UNRESOLVED, State
from ascertain.contracts.gate import Position
from ascertain.errors import Unavailable
from ascertain.ports import EffectFilter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ascertain.cli.change import Change
    from ascertain.cli.place import Place
    from ascertain.contracts.effect import EffectRow
    from ascertain.contracts.gate import Gate, GateChange, PartitionStanding
    from ascertain.ports import Ledger, Tally

_LOOK_EVERY_S: Final = 0.2
_MOST_ROWS: Final = 2000
_STAYS_CLOSED: Final = "Only the wait is over: the gate stays closed. See `ascertain partitions`."


async def pause(change: Change, config: Path | None, *, wait: bool, as_json: bool) -> None:
    """Close a gate and print what is still in flight; or wait until nothing is.

    Raises:
        LedgerDown: It is not known whether the gate is closed; the same request id is applied once.
    """
    where = place.find(config)
    request = change.request(paused=True)
    async with changing(where, request) as ledger:
        before = {each.partition: each for each in await ledger.gates()}
        gate = await ledger.set_gate(request)
        if _stays(gate, before.get(change.partition)):
            output.note(
                f"It was paused already, and stays as it was: {shape.gate_words(gate, datetime.now(UTC))} "
                "What was said now is not kept."
            )
        with stands(request, gate, "what of it is still in flight is not known"):
            flying = await _flying(ledger, change.partition)
            if wait:
                with leaving(_STAYS_CLOSED):
                    flying = await _drained(ledger, change.partition, flying)
            known = await acquaintance.known(ledger, where, change.partition)
            if known is False:
                await acquaintance.note_unknown(ledger, where, change.partition)
    if as_json:
        output.document(
            {
                "gate": shape.gate_document(gate, datetime.now(UTC)),
                "request_id": request.request_id,
                "in_flight": [_flying_document(row) for row in flying],
                "drained": not flying,
                "partition_known": known,
            }
        )
        return
    _say_gate(gate)
    output.line(_flight_words(flying))


async def resume(change: Change, config: Path | None, *, wake_rate: float, as_json: bool) -> None:
    """Open a gate and wake the tasks that it held.

    Raises:
        LedgerDown: It is not known whether the gate is open; the same request id is applied once.
    """
    where = place.find(config)
    request = change.request(paused=False)
    async with changing(where, request) as ledger:
        before = {each.partition: each for each in await ledger.gates()}
        gate = await ledger.set_gate(request)
        unknown = "whether another gate holds its tasks is not known, and none was woken"
        with stands(request, gate, unknown):
            closed_yet = await _still_closed(ledger, change.partition)
            strange = change.partition not in before
            if strange and await acquaintance.known(ledger, where, change.partition) is False:
                await acquaintance.note_unknown(ledger, where, change.partition)
    blocked = any(other.partition == EVERY for other in closed_yet)
    woken: int | None = 0
    why = ""
    if not blocked:
        named = None if change.partition == EVERY else change.partition
        held = Filter(state="HELD", partition=named).query()
        woken, why = await wake(where, held, lambda client, task: client.resume(task), wake_rate)
    one = None if change.partition == EVERY else change.partition
    cases = [] if why else await incident.beside(where, one)
    now = datetime.now(UTC)
    if as_json:
        told = shape.gate_document(gate, now)
        closed: list[object] = [shape.gate_document(other, now) for other in closed_yet]
        output.document(
            {
                "gate": told,
                "request_id": request.request_id,
                "woken": woken,
                "still_closed": closed,
                "incidents": [case for case, _ in cases],
            }
        )
    else:
        _say_gate(gate)
        output.lines(f"But {_keeps(each)}: {shape.gate_words(each, now)}" for each in closed_yet)
        if woken is not None and not blocked:
            output.line(f"{counted(woken, 'held task was', 'held tasks were')} woken.")
    if _ramp_is_unused(request, gate, before.get(change.partition)):
        output.note("The ramp was not used: the gate was open for all already, and stays so.")
    for _, words in cases:
        output.note(words)
    if why:
        output.note(f"Held tasks were not woken ({why}); they look at the gate by themselves.")


async def partitions(config: Path | None, *, as_json: bool) -> None:
    """Print every partition that was ever paused or has something open."""
    where = place.find(config)
    async with where.ledger() as ledger:
        known = await ledger.partitions()
        stuck = _stuck(await ledger.upkeep.tallies())
        outages = await ledger.outages()
    held, why = await _held(where, known)
    now = datetime.now(UTC)
    if as_json:
        found = [
            _partition_document(each, held, now) | _stuck_document(each, stuck) for each in known
        ]
        output.document({"partitions": found, "outages": shape.outage_documents(outages)})
    elif not known:
        output.line("No partition was ever paused, and nothing is open.")
    else:
        shown = [state for state in State if any(each.states.get(state) for each in known)]
        states = [state for state in shown if state is not State.IN_FLIGHT]
        head = (
            "partition",
            "gate",
            "since",
            "by",
            "why",
            "in flight",
            "held",
            "drained",
            *states,
            "stuck for",
        )
        output.table(
            head,
            [
                (*_partition_cells(each, held, states, now), _stuck_cell(each, stuck))
                for each in known
            ],
        )
    if not as_json:
        output.lines(map(shape.outage_words, outages))
    if why:
        output.note(f"How many tasks are held is not known ({why}).")


def _stuck(tallies: Sequence[Tally]) -> dict[str, timedelta]:
    """How long the oldest unresolved effect of each partition has stood as it does."""
    stuck: dict[str, timedelta] = {}
    for tally in tallies:
        stuck[tally.partition] = max(stuck.get(tally.partition, tally.stuck_for), tally.stuck_for)
    return stuck


def _stuck_document(each: PartitionStanding, stuck: Mapping[str, timedelta]) -> dict[str, object]:
    age = stuck.get(each.partition)
    return {"stuck_task_age_seconds": age.total_seconds() if age is not None else None}


def _stuck_cell(each: PartitionStanding, stuck: Mapping[str, timedelta]) -> str:
    return wording.age(stuck[each.partition]) if each.partition in stuck else ""


async def _held(
    where: Place, known: Sequence[PartitionStanding]
) -> tuple[dict[str, int | None], str]:
    """How many tasks wait for a gate, by partition; None, and why, where nobody can tell."""
    names = [each.partition for each in known]
    try:
        return dict(await held_tasks(await where.client(), names)), ""
    except Unavailable as error:
        return dict.fromkeys(names), str(error)


def _ramp_is_unused(request: GateChange, gate: Gate, before: Gate | None) -> bool:
    """Whether a ramp was asked for and the gate, that was open for all, is as it was."""
    if request.ramp is None or gate.already_applied:
        return False
    return before is None or before.since == gate.since


def _stays(gate: Gate, before: Gate | None) -> bool:
    """Whether a gate that was paused already is as it was, so that a new reason has gone by it."""
    if before is None or not before.paused or gate.already_applied:
        return False
    return (before.since, before.by, before.reason) == (gate.since, gate.by, gate.reason)


def _say_gate(gate: Gate) -> None:
    output.line(shape.gate_words(gate, datetime.now(UTC)))
    if gate.already_applied:
        output.line("This request had been applied before, so nothing was changed now.")


async def _flying(ledger: Ledger, partition: str) -> Sequence[EffectRow]:
    """Attempts that have not reported back; queued work among them, which runs long after it has sent."""
    which = EffectFilter(
        states=frozenset({State.IN_FLIGHT}),
        partition=None if partition == EVERY else partition,
        limit=_MOST_ROWS,
    )
    return await ledger.effects(which)


async def _drained(
    ledger: Ledger, partition: str, flying: Sequence[EffectRow]
) -> Sequence[EffectRow]:
    progress = Progress()
    while flying:
        progress.show(_flight_words(flying))
        await asyncio.sleep(_LOOK_EVERY_S)
        flying = await _flying(ledger, partition)
    progress.clear()
    return flying


def _flight_words(flying: Sequence[EffectRow]) -> str:
    if not flying:
        return "Nothing of it is in flight: it is drained."
    who = counted(len(flying), "attempt is", "attempts are")
    sending = [row.lease_until for row in flying if row.now < row.lease_until]
    can = f"may still send until {wording.clock(max(sending))}" if sending else "can send no more"
    return f"{who} in flight and {can}; what comes of it is recorded."


async def _still_closed(ledger: Ledger, partition: str) -> list[Gate]:
    """Gates that keep an opened one from mattering: that of every partition, or those of single ones."""
    return [
        gate
        for gate in await ledger.gates()
        if gate.paused and (gate.partition == EVERY) != (partition == EVERY)
    ]


def _keeps(gate: Gate) -> str:
    return "nothing goes on yet" if gate.partition == EVERY else "one is paused by itself"


def _flying_document(row: EffectRow) -> dict[str, object]:
    return {
        "effect_id": row.effect_id,
        "task_id": row.task_id,
        "attempt": row.attempt,
        "may_send_until": row.lease_until.isoformat(),
    }


def _partition_document(
    each: PartitionStanding, held: Mapping[str, int | None], now: datetime
) -> dict[str, object]:
    unresolved: dict[str, object] = {
        state.value: count for state, count in each.states.items() if state in UNRESOLVED
    }
    return {
        "partition": each.partition,
        "position": each.gate.position(now) if each.gate is not None else Position.OPEN,
        "paused": each.gate is not None and each.gate.paused,
        "gate": shape.gate_document(each.gate, now) if each.gate is not None else None,
        "in_flight": each.in_flight,
        "may_send_until": each.sending_until.isoformat() if each.sending_until else None,
        "drained": each.drained,
        "held": held[each.partition],
        "unresolved": unresolved,
        "waiting_to_retry": each.states.get(State.CLEAR, 0),
    }


def _partition_cells(
    each: PartitionStanding,
    held: Mapping[str, int | None],
    states: Sequence[State],
    now: datetime,
) -> tuple[str, ...]:
    count = held[each.partition]
    return (
        *_gate_cells(each.partition, each.gate, now),
        str(each.in_flight),
        "?" if count is None else str(count),
        "yes" if each.drained else "no",
        *(str(each.states.get(state, 0)) for state in states),
    )


def _gate_cells(name: str, gate: Gate | None, now: datetime) -> tuple[str, str, str, str, str]:
    shown = "(every)" if name == EVERY else name
    if gate is None:
        return shown, Position.OPEN, "", "", ""
    position = shape.position_words(gate, now)
    return shown, position, wording.moment(gate.since), gate.by, gate.reason
