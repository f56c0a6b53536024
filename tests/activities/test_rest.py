"""Of which steps the ledger says that their effect may exist, so that no task ends before it is asked for."""

from __future__ import annotations

import pytest
from temporalio.testing import ActivityEnvironment

from activities.rest import Rest
from activities.serving import Serving
from ascertain.contracts.effect import State
from ascertain.ledger.model import ModelLedger
from tests.activities.standing import Clock, stands

GONE = {State.REFUSED, State.ABANDONED, State.SUPERSEDED}


@pytest.mark.parametrize("state", State)
async def test_a_step_is_known_unless_its_effect_is_closed_without_a_fact(state):
    ledger = ModelLedger(Clock())
    await stands(ledger, state)
    asked = Rest(Serving(ledger, {}, "worker:1"))
    known = await ActivityEnvironment().run(asked.rest, "task-1")
    assert known.steps == (() if state in GONE else ("do",))
    assert (await ActivityEnvironment().run(asked.rest, "task-2")).steps == ()
