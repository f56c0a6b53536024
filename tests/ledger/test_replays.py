"""The book of replays: what is selected once, taken one by one, and counted so that it adds up."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest

from ascertain.contracts.claim import Granted, Moved, Paused
from ascertain.contracts.effect import State
from ascertain.contracts.gate import GateChange
from ascertain.contracts.replay import Outlook, Result, Selection
from ascertain.ledger.postgres import PostgresLedger
from ascertain.machine import Move
from tests.ledger.conftest import Clock
from tests.ledger.steps import (
    PERSON,
    SEEN,
    effect,
    in_state,
    moved,
    request,
    unknown,
    verdict,
)

ALL = Selection(states=(State.QUARANTINED, State.UNKNOWN))


async def foreseen(ledger: PostgresLedger, *names: str) -> None:
    """A replay ``r`` of these quarantined effects, all of which the dry run found absent."""
    for name in names:
        await in_state(ledger, State.QUARANTINED, name)
    await ledger.replays.select("r", Selection())
    for name in names:
        await ledger.replays.foresee("r", f"ef1-{name}", Outlook.ABSENT, Result.WAITING, "seen")


async def pause(ledger: PostgresLedger, partition: str, *, paused: bool = True) -> None:
    change = {"partition": partition, "paused": paused, "by": "ada", "reason": "incident"}
    await ledger.set_gate(GateChange(**change, request_id=uuid4().hex))


async def cleared(ledger: PostgresLedger, name: str = "1") -> None:
    """What a retry and a conclusive lookup come to."""
    case = await ledger.inspect(f"ef1-{name}")
    assert case is not None
    said = verdict(State.UNKNOWN, evidence=PERSON)
    row = await ledger.decide(f"ef1-{name}", case.row.version, Move.RETRY, said, "ada")
    assert isinstance(row, Moved)
    absent = verdict(State.CLEAR, evidence=SEEN)
    assert isinstance(await ledger.converge(f"ef1-{name}", row.row.version, absent, "w"), Moved)


async def test_what_fits_is_selected_once(ledger: PostgresLedger) -> None:
    await in_state(ledger, State.QUARANTINED, "1")
    await in_state(ledger, State.UNKNOWN, "2")
    await in_state(ledger, State.SETTLED, "3")
    for _ in range(2):
        await ledger.replays.select("r", ALL)
    assert (await ledger.replays.tally("r")).results == {"WAITING": 2}
    for name, fits in {
        "kind": Selection(kind="other.kind"),
        "partition": Selection(partition="q"),
        "error_class": Selection(error_class="budget"),
        "task": Selection(task_ids=("task-2",)),
        "effect": Selection(effect_ids=("ef1-2",)),
    }.items():
        await ledger.replays.select(name, fits)
        assert (await ledger.replays.tally(name)).items == 0
    await ledger.replays.select("this", Selection(task_ids=("task-1",), error_class="several"))
    (item,) = await ledger.replays.items("this")
    assert (item.effect_id, item.version, item.attempt) == ("ef1-1", 3, 1)


async def test_nothing_is_taken_before_it_was_asked_for(
    ledger: PostgresLedger, admin: asyncpg.Connection
) -> None:
    await in_state(ledger, State.QUARANTINED, "1")
    await ledger.replays.select("r", Selection())
    assert await ledger.replays.take("r", 0, 9, through_gate=False) is None
    with pytest.raises(asyncpg.CheckViolationError, match="asked_first"):
        await admin.execute("update ascertain.replay_items set result = 'STARTED', batch = 0")


async def test_a_batch_never_gets_more_than_its_limit(ledger: PostgresLedger) -> None:
    await foreseen(ledger, "1", "2", "3", "4", "5")
    taken = [await ledger.replays.take("r", 0, 2, through_gate=False) for _ in range(3)]
    assert [item and item.effect_id for item in taken] == ["ef1-1", "ef1-2", None]
    assert (await ledger.replays.tally("r")).results == {"STARTED": 2, "WAITING": 3}
    rest = await asyncio.gather(
        *(ledger.replays.take("r", 1, 50, through_gate=False) for _ in range(4))
    )
    assert {item.effect_id for item in rest if item} <= {"ef1-3", "ef1-4", "ef1-5"}
    assert len([item for item in rest if item]) == len({item.effect_id for item in rest if item})


async def test_what_has_not_come_to_rest_is_counted_by_partition(ledger: PostgresLedger) -> None:
    for name, partition in (("1", "p"), ("2", "p"), ("3", "q"), ("4", "q")):
        claimed = await ledger.claim(request(name, effect=effect(name, partition=partition)))
        assert isinstance(claimed, Granted)
        await moved(ledger.record(claimed.lease, unknown()))
    await ledger.replays.select("r", ALL)
    assert await ledger.replays.waiting("r") == {"p": 2, "q": 2}
    await ledger.replays.foresee("r", "ef1-1", Outlook.THERE, Result.FOUND, "seen")
    for name in ("2", "3", "4"):
        await ledger.replays.foresee("r", f"ef1-{name}", Outlook.ABSENT, Result.WAITING, "seen")
    for _ in range(3):
        await ledger.replays.take("r", 0, 9, through_gate=False)
    await ledger.replays.finish("r", "ef1-2", Result.DONE, "settled")
    await ledger.replays.finish("r", "ef1-3", Result.OPEN, "took too long")
    assert await ledger.replays.waiting("r") == {"q": 2}
    assert await ledger.replays.waiting("other") == {}


async def test_only_what_an_incidents_replay_has_begun_passes_the_gate_of_its_partition(
    ledger: PostgresLedger,
) -> None:
    await foreseen(ledger, "1", "2", "3")
    await pause(ledger, "p")
    assert await ledger.replays.take("r", 0, 1, through_gate=True)
    assert await ledger.replays.take("r", 1, 1, through_gate=False)
    answers = {}
    for name in ("1", "2", "3"):
        await cleared(ledger, name)
        answers[name] = type(await ledger.claim(request(name, owner="again")))
    assert answers == {"1": Granted, "2": Paused, "3": Paused}


async def test_what_a_replay_has_left_begun_passes_no_pause_that_comes_later(
    ledger: PostgresLedger, clock: Clock
) -> None:
    await foreseen(ledger, "1")
    await pause(ledger, "p")
    assert await ledger.replays.take("r", 0, 1, through_gate=True)
    await cleared(ledger)
    await pause(ledger, "p", paused=False)
    await clock.advance(timedelta(days=1))
    await pause(ledger, "p")
    assert isinstance(await ledger.claim(request("1", owner="again")), Paused)


async def test_no_replay_passes_the_gate_of_every_partition(ledger: PostgresLedger) -> None:
    await foreseen(ledger, "1")
    await ledger.replays.take("r", 0, 1, through_gate=True)
    await cleared(ledger)
    await pause(ledger, "*")
    assert isinstance(await ledger.claim(request("1", owner="again")), Paused)


async def test_what_has_come_to_rest_passes_no_gate_any_more(ledger: PostgresLedger) -> None:
    await foreseen(ledger, "1")
    await ledger.replays.take("r", 0, 1, through_gate=True)
    await cleared(ledger)
    await pause(ledger, "p")
    await ledger.replays.finish("r", "ef1-1", Result.OPEN, "took too long")
    assert isinstance(await ledger.claim(request("1", owner="again")), Paused)
