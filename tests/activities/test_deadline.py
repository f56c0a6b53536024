from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from activities.perform import Perform
from activities.serving import Serving
from ascertain.contracts import directive
from ascertain.contracts.effect import Effect, Evidence, Receipt
from ascertain.contracts.outcome import Settled, Unknown
from ascertain.contracts.semantics import Policy, Semantics
from ascertain.contracts.work import Work
from ascertain.ledger.model import ModelLedger
from ascertain.ports import Kind

EFFECT = Effect(
    effect_id="ef1-a", task_id="task-1", step="do", kind="toy.fact", partition="p", input={}
)
SEEN = Evidence(source="answer", rule="proof")


class ToyAdapter:
    semantics = Semantics()

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)

    def prepare(self, effect):
        return b"sent once"

    async def perform(self, call, permit):
        permit.check()
        return self.outcomes.pop(0)

    async def aclose(self):
        pass


@pytest.fixture
def adapter():
    return ToyAdapter(Unknown(error_class="answer_lost", evidence=SEEN))


@pytest.fixture
def perform(adapter):
    kind = Kind("toy.fact", Semantics(), Policy(), adapter)
    ledger = ModelLedger(lambda: datetime.now(UTC))
    activity = Perform(Serving(ledger, {"toy.fact": kind}, "w")).perform

    async def run(deadline):
        work = Work(effect=EFFECT, deadline=deadline)
        return (await ActivityEnvironment().run(activity, work)).directive

    return run


PAST = datetime.now(UTC) - timedelta(seconds=1)
FUTURE = PAST + timedelta(days=1)


async def test_an_effect_that_waited_beyond_its_deadline_is_not_begun(perform, adapter):
    following = await perform(PAST)
    assert isinstance(following, directive.RetryIn)
    assert "deadline has passed" in following.reason
    assert len(adapter.outcomes) == 1


async def test_before_its_deadline_it_is_begun(perform, adapter):
    adapter.outcomes.insert(0, Settled(receipt=Receipt(external_id="fact-1"), evidence=SEEN))
    assert isinstance(await perform(FUTURE), directive.Done)


async def test_what_is_in_doubt_is_ascertained_whatever_the_time_is(perform):
    await perform(FUTURE)
    assert isinstance(await perform(PAST), directive.ReconcileIn)
