from __future__ import annotations

from itertools import product

import pytest

from ascertain.contracts.effect import TERMINAL, State
from ascertain.machine import ACTOR, TABLE, Actor, Move, legal_pairs, next_state

EVERY = [None, *State]


@pytest.mark.parametrize(("state", "move"), list(product(EVERY, Move)))
def test_every_state_answers_every_move(state, move):
    assert next_state(state, move) in {None, *State}


def test_no_move_of_the_table_and_no_actor_is_forgotten():
    assert set(TABLE) == set(Move) == set(ACTOR)


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_terminal_state_never_changes(state):
    assert [move for move in Move if next_state(state, move) is not None] == []


def test_only_a_claim_or_a_protected_resend_leads_into_flight():
    ways = {
        (start, move)
        for move, steps in TABLE.items()
        for start, end in steps.items()
        if end is State.IN_FLIGHT
    }
    assert ways == {
        (None, Move.CLAIM),
        (State.CLEAR, Move.CLAIM),
        (State.UNKNOWN, Move.RESEND),
        (State.IN_FLIGHT, Move.RENEW),
    }


def test_an_accepted_effect_is_never_cleared_by_an_empty_lookup():
    assert next_state(State.ACCEPTED, Move.FIND_ABSENT) is None


def test_automation_moves_a_quarantined_effect_only_to_settled():
    ends = {
        end
        for move, steps in TABLE.items()
        for start, end in steps.items()
        if start is State.QUARANTINED and ACTOR[move] is not Actor.PERSON
    }
    assert ends == {State.SETTLED}


def test_automation_does_not_move_a_taken_over_effect():
    movers = {ACTOR[move] for move, steps in TABLE.items() if State.TAKEN_OVER in steps}
    assert movers == {Actor.PERSON}


def test_a_person_cannot_touch_an_effect_in_flight():
    for move in Move:
        if ACTOR[move] is Actor.PERSON:
            assert next_state(State.IN_FLIGHT, move) is None


def test_superseding_needs_proof_of_absence():
    assert set(TABLE[Move.SUPERSEDE]) == {State.CLEAR}


def test_a_terminal_state_is_reachable_from_every_state():
    closing = set(TERMINAL)
    while True:
        more = {start for start, end in legal_pairs() if end in closing} | closing
        if more == closing:
            break
        closing = more
    assert closing == set(State)
