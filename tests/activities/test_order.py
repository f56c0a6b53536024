"""A person's order to take a settled effect back is told to whichever run meets the effect again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from activities.perform import Perform
from activities.reconcile import Reconcile
from activities.serving import Serving
from ascertain.contracts import directive
from ascertain.contracts.command import Action
from ascertain.contracts.effect import Evidence, State
from ascertain.contracts.semantics import Policy, Semantics
from ascertain.contracts.work import Work
from ascertain.ledger.model import ModelLedger
from ascertain.ports import Kind
from tests.activities.standing import Clock, effect, stands

ORDER = Evidence(source="person", rule=Action.UNDO.value, detail="ada: the goods came back")


class Untouched:
    """An adapter that is asked for nothing but the bytes of its request."""

    semantics = Semantics(harmless=True, max_duration=timedelta(seconds=1))

    def prepare(self, effect):
        del effect
        return b""


def kinds(*, served):
    adapter = Untouched()
    return {"toy.fact": Kind("toy.fact", adapter.semantics, Policy(), adapter)} if served else {}


async def met(activity, ledger, *, served):
    asked = activity(Serving(ledger, kinds(served=served), "worker:1"))
    turn = asked.perform if isinstance(asked, Perform) else asked.reconcile
    return (await ActivityEnvironment().run(turn, Work(effect=effect()))).directive


@pytest.mark.parametrize("activity", [Perform, Reconcile])
@pytest.mark.parametrize("served", [True, False])
@pytest.mark.parametrize(
    ("said", "ordered"),
    [
        (ORDER, True),
        (ORDER.model_copy(update={"source": "rule"}), False),
        (ORDER.model_copy(update={"rule": Action.CONFIRM.value}), False),
        (None, False),
    ],
    ids=["undo", "no person", "no undo", "nothing"],
)
async def test_only_a_persons_undo_is_an_order_to_take_back(activity, served, said, ordered):
    ledger = ModelLedger(Clock())
    await stands(ledger, State.SETTLED)
    if said is not None:
        await ledger.note(effect().effect_id, "ada", said)
    following = await met(activity, ledger, served=served)
    assert isinstance(following, directive.Done)
    assert following.ordered_back is ordered
