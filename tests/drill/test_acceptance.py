"""An effect is accepted only if the outside's books and the audit trail both say that it came out right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascertain.contracts.claim import Lease
from ascertain.contracts.effect import State
from ascertain.machine import Move
from drill.acceptance import REFUSED_WRITE, Expectation, by_person, faults
from tests.drill.traces import Night
from tests.ledger import steps

RIGHT = Expectation()


@pytest.fixture
def night() -> Night:
    return Night()


async def test_one_fact_and_a_legal_trail_are_right(night):
    assert faults(await night.settled(), RIGHT) == []


async def test_a_second_fact_is_wrong_and_named(night):
    await night.settled()
    night.happened()
    told = faults(await night.trace(), RIGHT)
    assert told[0] == "2 facts outside (fact-1, fact-2) instead of 1"


async def test_a_request_without_a_claim_is_wrong_although_it_did_nothing(night):
    await night.settled()
    night.received()
    assert faults(await night.trace(), RIGHT) == [
        "the outside received 2 requests; at most 1 were permitted"
    ]


async def test_an_effect_that_was_never_claimed_is_wrong(night):
    assert "the ledger does not know it" in faults(await night.trace(), RIGHT)


async def test_an_effect_that_is_left_between_states_is_wrong(night):
    await night.claimed()
    night.happened()
    (told,) = faults(await night.trace(), RIGHT)
    assert told.startswith("it is left between states: IN_FLIGHT")


async def test_a_receipt_of_a_fact_that_the_outside_does_not_have_is_wrong(night):
    granted = await night.claimed()
    night.happened()
    await night.ledger.record(granted.lease, steps.settled("fact-9"))
    (told,) = faults(await night.trace(), RIGHT)
    assert "SETTLED by fact-9" in told


async def test_another_final_state_than_the_expected_one_is_wrong(night):
    granted = await night.claimed()
    night.received()
    await night.ledger.record(granted.lease, steps.refused())
    trace = await night.trace()
    assert faults(trace, Expectation(state=State.REFUSED, facts=0)) == []
    assert "it is REFUSED instead of SETTLED" in faults(trace, RIGHT)


async def test_a_message_that_is_not_found_with_its_effect_is_wrong(night):
    effect = steps.effect(message_id="m-1")
    trace = await night.settled(effect=effect)
    assert faults(trace, Expectation(message_id="m-1")) == []
    assert faults(trace, Expectation(message_id="m-2")) != []


async def test_a_late_write_must_stand_in_the_trail_where_one_was_provoked(night):
    trace = await night.settled()
    (told,) = faults(trace, Expectation(late_write=True))
    assert "late write" in told
    late = Lease("ef1-1", "worker/1", 7, 1)
    await night.ledger.record(late, steps.settled("fact-1"))
    assert faults(await night.trace(), Expectation(late_write=True)) == []
    assert (await night.trace()).moves[-1] == REFUSED_WRITE


async def test_a_move_that_must_have_been_made_is_missed(night):
    trace = await night.settled()
    (told,) = faults(trace, Expectation(moves=frozenset({Move.QUARANTINE})))
    assert told == "quarantine is not in the audit trail"


async def test_where_automation_must_do_alone_a_persons_move_is_wrong(night):
    granted = await night.claimed()
    night.happened()
    await night.ledger.record(granted.lease, steps.unknown())
    row = (await night.trace()).row
    said = steps.verdict(State.TAKEN_OVER, evidence=steps.PERSON)
    taken = await night.ledger.decide("ef1-1", row.version, Move.TAKE, said, "ada")
    assert by_person(await night.trace()) == ["take"]
    confirmed = steps.verdict(State.SETTLED, evidence=steps.PERSON, receipt=steps.receipt("fact-1"))
    await night.ledger.decide("ef1-1", taken.row.version, Move.CONFIRM, confirmed, "ada")
    trace = await night.trace()
    assert faults(trace, RIGHT) == []
    assert faults(trace, Expectation(alone=True)) == ["a person was needed: take, confirm"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"to_state": State.CLEAR}, "goes from"),
        ({"version": 7}, "takes version 1 to 7"),
        ({"lease_version": 0}, "back"),
    ],
)
async def test_a_trail_that_no_machine_allows_is_wrong(night, changes, says):
    trace = await night.settled()
    broken = trace.events[-1].model_copy(update=changes)
    told = faults(replace(trace, events=(*trace.events[:-1], broken)), RIGHT)
    assert says in " ".join(told)


async def test_a_trail_that_was_cut_off_is_wrong(night):
    trace = await night.settled()
    told = faults(replace(trace, events=trace.events[:-1]), RIGHT)
    assert "broken" in " ".join(told)
