"""One call for many effects, whatever becomes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from activities.breaker import Breakers
from activities.calling import called
from activities.permit import HeldPermit, steady
from ascertain.contracts import outcome
from ascertain.contracts.claim import Lease
from ascertain.contracts.effect import Evidence, Receipt
from ascertain.contracts.semantics import Policy, Semantics
from ascertain.errors import PermitLost
from ascertain.ledger.model import ModelLedger
from ascertain.ports import Kind
from tests.ledger.steps import effect

KIND = Kind("toy.fact", Semantics(max_duration=timedelta(seconds=0.2)), Policy(), None)
EFFECTS = [effect(str(number)) for number in range(3)]
ANSWER = Evidence(source="answer", rule="proof")
SETTLED = outcome.Settled(receipt=Receipt(external_id="fact-1"), evidence=ANSWER)


def permit(number, length=5.0):
    return HeldPermit(
        ModelLedger(lambda: datetime.now(UTC)),
        Lease(f"ef1-{number}", "w", 1, 1),
        asked_at=steady(),
        length=timedelta(seconds=length),
    )


@pytest.fixture
def permits():
    return [permit(number) for number in range(3)]


async def test_each_effect_has_the_outcome_that_it_was_told(permits):
    refused = outcome.Refused(error_class="no", evidence=ANSWER)

    async def send():
        for each in permits:
            each.check()
        return [SETTLED, refused, "fine"]

    settled, no, odd = await called(send, permits, KIND, EFFECTS, Breakers())
    assert (settled, no) == (SETTLED, refused)
    assert (type(odd), odd.error_class) == (outcome.Unknown, "unclassified")


async def test_of_a_batch_whose_permits_ran_out_it_is_known_that_nothing_was_sent():
    permits = [permit(number, length=-1) for number in range(3)]

    async def send():
        for each in permits:
            each.check()
        return [SETTLED] * 3

    told = await called(send, permits, KIND, EFFECTS, Breakers())
    assert [(type(one), one.error_class) for one in told] == [(outcome.NotDone, "permit_lost")] * 3


async def test_whose_permit_was_used_before_another_one_was_lost_is_in_doubt():
    permits = [permit(0), permit(1, length=-1), permit(2)]

    async def send():
        for each in permits:
            each.check()
        return [SETTLED] * 3

    told = await called(send, permits, KIND, EFFECTS, Breakers())
    assert [type(one) for one in told] == [outcome.Unknown, outcome.NotDone, outcome.NotDone]


async def test_a_permit_that_is_called_lost_after_it_was_used_is_doubt_for_all(permits):
    async def send():
        for each in permits:
            each.check()
        raise PermitLost("an adapter's own idea")

    told = await called(send, permits, KIND, EFFECTS, Breakers())
    assert {type(one) for one in told} == {outcome.Unknown}


@pytest.mark.parametrize("count", [0, 2, 4])
async def test_other_many_outcomes_than_effects_are_doubt_for_all(permits, count):
    async def send():
        for each in permits:
            each.check()
        return [SETTLED] * count

    told = await called(send, permits, KIND, EFFECTS, Breakers())
    assert [type(one) for one in told] == [outcome.Unknown] * 3


async def test_a_call_that_is_over_has_spent_every_permit(permits):
    async def send():
        return [SETTLED] * 3

    await called(send, permits, KIND, EFFECTS, Breakers())
    for each in permits:
        with pytest.raises(PermitLost):
            each.check()
