from __future__ import annotations

from collections import Counter

import pytest

from drill.chaos.plan import Blow, draw
from drill.chaos.rule import rules
from drill.kind import OutsideClass, Route
from drill.trouble import KNOBS, Trouble

HOUR_S = 3600


def test_the_same_seed_draws_the_same_plan_and_another_one_another():
    assert draw(7, 60) == draw(7, 60)
    assert draw(7, 60) != draw(8, 60)


def test_a_longer_run_of_a_seed_begins_as_the_shorter_one():
    short, long = draw(7, 60), draw(7, 120)
    assert long.errands[: len(short.errands)] == short.errands
    assert [event for event in long.events if event.at_s < 58] == list(short.events)


@pytest.mark.parametrize("seed", range(5))
def test_an_hour_strikes_more_than_five_thousand_times_and_in_every_way(seed):
    plan = draw(seed, HOUR_S)
    troubles = Counter(trouble for errand in plan.errands for trouble in errand.troubles)
    blows = Counter(event.blow for event in plan.events)
    assert troubles.total() + blows.total() > 5000
    assert set(troubles) == set(Trouble)
    assert set(blows) == set(Blow)


def test_every_class_of_outside_is_asked_for_work_by_either_route():
    met = {(errand.outside, errand.route) for errand in draw(1, 120).errands}
    assert met == {(outside, route) for outside in OutsideClass for route in Route}


def test_nothing_is_begun_when_the_run_is_about_to_end():
    plan = draw(3, 60)
    assert max(item.at_s for item in (*plan.errands, *plan.events)) < 60


def test_every_trouble_is_one_that_the_outside_can_make():
    assert set(KNOBS) == set(Trouble)
    undone = {trouble for trouble, knobs in KNOBS.items() if knobs.commit == "never"}
    assert undone == {trouble for trouble in Trouble if trouble.value.startswith("not done")}


def test_an_errands_troubles_become_rules_for_its_first_requests():
    errand = next(errand for errand in draw(1, 60).errands if len(errand.troubles) == 2)
    made = [rule for rule in rules(errand, "ef1-a") if rule.submit is not None]
    assert [rule.submit for rule in made] == [KNOBS[trouble] for trouble in errand.troubles]
    assert {(rule.key, rule.times) for rule in made} == {("ef1-a", 1)}
