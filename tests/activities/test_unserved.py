"""An effect of a kind that nobody serves now: the ledger's word is passed on, and nothing is ended by it."""

from __future__ import annotations

import pytest
from temporalio.testing import ActivityEnvironment

from activities.perform import Perform
from activities.reconcile import Reconcile
from activities.serving import Serving
from ascertain.contracts import directive
from ascertain.contracts.claim import Verdict
from ascertain.contracts.effect import Evidence, State
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


async def test_that_nobody_serves_its_kind_is_told_beside_what_a_person_has_to_decide():
    ledger, which = ModelLedger(Clock()), effect(0)
    await stands(ledger, State.UNKNOWN)
    doubt = await ledger.inspect(which.effect_id)
    assert doubt is not None
    cause = Evidence(source="rule", rule="no_lookup", detail="nobody can be asked")
    await ledger.converge(
        which.effect_id, doubt.row.version, Verdict(State.QUARANTINED, cause), "w/1"
    )
    reconcile = Reconcile(Serving(ledger, {}, "worker:1")).reconcile
    answer = await ActivityEnvironment().run(reconcile, Work(effect=which))
    assert answer.directive.reason.startswith("nobody can be asked; last look at 2026-01-01 ")
    assert "no worker here knows kind" in answer.directive.reason
