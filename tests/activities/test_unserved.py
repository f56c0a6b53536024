"""An effect of a kind that nobody serves now: the ledger's word is passed on, and nothing is ended by it."""

from __future__ import annotations

import pytest
from temporalio.testing import ActivityEnvironment

from activities.perform import Perform
from activities.reconcile import Reconcile
from activities.serving import Serving
from ascertain.contracts import directive
from ascertain.contracts.effect import State
from ascertain.contracts.work import Work
from ascertain.ledger.model import ModelLedger
from tests.activities.standing import Clock, effect, stands


@pytest.mark.parametrize("activity", [Perform, Reconcile])
@pytest.mark.parametrize("withdraw", [False, True])
async def test_what_was_amended_goes_on_as_what_came_instead_also_where_nobody_serves_its_kind(
    activity, withdraw
):
    ledger = ModelLedger(Clock())
    await stands(ledger, State.SUPERSEDED)
    asked = activity(Serving(ledger, {}, "worker:1"))
    turn = asked.perform if isinstance(asked, Perform) else asked.reconcile
    answer = await ActivityEnvironment().run(turn, Work(effect=effect(0), withdraw=withdraw))
    following = answer.directive
    assert isinstance(following, directive.Superseded)
    assert (following.by, following.input) == (effect(1).effect_id, {"amount": 1})
