"""A ledger that was restored to before an amendment: the old input is never sent beside the new one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from activities.dispatch import dispatch
from activities.reconcile import Reconcile
from activities.serving import Served, Serving
from ascertain import keys
from ascertain.contracts import directive, finding
from ascertain.contracts.claim import Verdict
from ascertain.contracts.effect import Evidence, Receipt, State
from ascertain.contracts.epoch import EpochRequest
from ascertain.contracts.semantics import LookupBy, Policy, Semantics
from ascertain.contracts.work import Work
from ascertain.ledger.model import ModelLedger
from ascertain.machine import Move
from ascertain.ports import Kind
from tests.activities.standing import DOUBT, SAID, SETTLED, T0, Clock, effect, stands

HOUR = timedelta(hours=1)


class Outside:
    """It has what was sent with the new input, and nothing else."""

    semantics = Semantics(lookup=LookupBy.KEY)

    def __init__(self):
        self.sent = []

    def prepare(self, effect):
        return keys.canonical(effect.input)

    async def perform(self, call, permit):
        permit.check()
        self.sent.append(call.effect.revision)
        return DOUBT

    async def lookup(self, call, *, within):
        if call.effect.revision == 1:
            return finding.Found(receipt=Receipt(external_id="fact-1"))
        return finding.Absent()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def serving(clock):
    outside = Outside()
    kind = Kind("toy.fact", outside.semantics, Policy(), outside)
    return Serving(ModelLedger(clock), {"toy.fact": kind}, "worker:1")


async def restored(serving, clock):
    clock.now += HOUR
    told = EpochRequest(since=T0, by="ada", reason="the disk broke", request_id="epoch-1")
    await serving.ledger.raise_epoch(told)
    clock.now += HOUR


async def performed(serving):
    kind = serving.kinds["toy.fact"]
    served = Served(kind, kind.adapter)
    return await ActivityEnvironment().run(dispatch, serving, served, effect(1))


@pytest.mark.parametrize(
    "state",
    [
        State.IN_FLIGHT,
        State.UNKNOWN,
        State.ACCEPTED,
        State.CLEAR,
        State.QUARANTINED,
        State.TAKEN_OVER,
    ],
)
async def test_a_forgotten_amendment_is_learnt_from_the_task_and_the_new_input_is_asked_for(
    serving, clock, state
):
    await stands(serving.ledger, state)
    await restored(serving, clock)
    assert isinstance(await performed(serving), directive.ReconcileIn)
    work = Work(effect=effect(1))
    answer = await ActivityEnvironment().run(Reconcile(serving).reconcile, work)
    assert isinstance(answer.directive, directive.Done)
    old = (await serving.ledger.inspect(effect(0).effect_id)).row
    assert (old.state, old.superseded_by) == (State.SUPERSEDED, effect(1).effect_id)
    assert "before the ledger was restored" in old.evidence.detail
    assert serving.kinds["toy.fact"].adapter.sent == []


async def test_a_receipt_that_came_too_late_is_not_superseded(serving, clock):
    lease = await stands(serving.ledger, State.UNKNOWN)
    await serving.ledger.record(lease, SETTLED)
    await restored(serving, clock)
    assert isinstance(await performed(serving), directive.Conflicting)
    assert (await serving.ledger.inspect(effect(0).effect_id)).row.state is State.UNKNOWN


async def test_what_a_person_took_over_after_the_restore_is_theirs_to_end(serving, clock):
    await stands(serving.ledger, State.UNKNOWN)
    await restored(serving, clock)
    row = (await serving.ledger.inspect(effect(0).effect_id)).row
    steps = (Move.TAKE, Move.RELEASE, Move.TAKE)
    for move, state in zip(steps, (State.TAKEN_OVER, State.UNKNOWN, State.TAKEN_OVER), strict=True):
        said = Verdict(state, Evidence(source="person", rule=move.value))
        await serving.ledger.decide(row.effect_id, row.version, move, said, "ada")
        held = await performed(serving)
        assert isinstance(held, directive.RetryIn)
        assert "it waits until that is confirmed or abandoned" in held.reason
        row = (await serving.ledger.inspect(row.effect_id)).row
        assert row.state is state
    gone = Verdict(State.ABANDONED, SAID)
    await serving.ledger.decide(row.effect_id, row.version, Move.ABANDON, gone, "ada")
    assert isinstance(await performed(serving), directive.Conflicting)


async def test_a_task_that_is_cancelled_meanwhile_ends_with_what_was_found(serving, clock):
    await stands(serving.ledger, State.UNKNOWN)
    await restored(serving, clock)
    work = Work(effect=effect(1), withdraw=True)
    asking = Reconcile(serving)
    first = await ActivityEnvironment().run(asking.reconcile, work)
    assert isinstance(first.directive, directive.ReconcileIn)
    second = await ActivityEnvironment().run(asking.reconcile, work)
    assert isinstance(second.directive, directive.Done)
