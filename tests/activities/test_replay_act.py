"""What a batch of a replay says of what has not come to rest in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from activities.replay import ReplayAct
from activities.serving import Serving
from ascertain.contracts.effect import State
from ascertain.contracts.gate import GateChange
from ascertain.contracts.replay import Act, Item, Result, Tally
from ascertain.ledger.model import ModelLedger
from ascertain.recovery import Standing

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ITEM = Item(
    effect_id="ef1-a",
    task_id="task-1",
    kind="toy.fact",
    partition="p",
    state=State.QUARANTINED,
    version=3,
    attempt=1,
    result=Result.STARTED,
)


class OneItem:
    """A book whose one item was told, and whose effect stands like this."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.said = ""

    async def take(self, replay_id, batch, limit, *, through_gate):
        return None

    async def begun(self, replay_id):
        return [Standing(ITEM, self._state, version=5, attempt=1, detail="absent")]

    async def finish(self, replay_id, effect_id, result, detail):
        assert result is Result.OPEN
        self.said = detail

    async def tally(self, replay_id):
        return Tally()


@pytest.mark.parametrize(
    ("closed", "state", "through_gate", "held"),
    [
        ("p", State.CLEAR, False, True),
        ("p", State.CLEAR, True, False),
        ("p", State.UNKNOWN, False, False),
        ("other", State.CLEAR, False, False),
        ("*", State.CLEAR, True, True),
    ],
)
async def test_what_a_closed_gate_keeps_from_being_sent_is_said_to_be_held(
    closed, state, through_gate, held
):
    ledger = ModelLedger(lambda: NOW)
    pause = GateChange(partition=closed, paused=True, by="ada", reason="503", request_id="r")
    await ledger.set_gate(pause)
    book = OneItem(state)
    act = Act(
        replay_id="r",
        operator="ada",
        reason="again",
        batch=0,
        limit=1,
        rate=1,
        patience=timedelta(0),
        through_gate=through_gate,
    )
    await ActivityEnvironment().run(ReplayAct(Serving(ledger, {}, "w"), book, None).act, act)
    why = (
        "it is CLEAR and held by a gate, paused since 2026-01-01 12:00:00 UTC by ada: 503; it goes on by "
        "itself once that is resumed"
    )
    assert book.said == (why if held else f"it is {state} and goes on by itself: absent")
