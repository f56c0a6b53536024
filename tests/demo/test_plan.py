from __future__ import annotations

from collections import Counter

import pytest

from starter.demo import payment
from starter.demo.compare import What
from starter.demo.due import dues
from starter.demo.plan import draw

SEEDS = range(20)


def waves(count):
    tasks = payment.load(count=count)
    half = count // 2
    return dues(tasks[:half], "default"), dues(tasks[half:], "default")


def test_the_same_seed_draws_the_same_faults_and_another_one_others():
    first, second = waves(120)
    assert draw(first, second, 7) == draw(first, second, 7)
    assert draw(first, second, 7) != draw(first, second, 8)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_shares_are_those_that_are_promised(seed):
    first, second = waves(120)
    plan = draw(first, second, seed)
    counts = Counter(fault.kind for fault in plan.faults.values())
    assert counts == {"drop_reply": 13, "drop_request": 6, "delay": 6}


@pytest.mark.parametrize("seed", SEEDS)
def test_even_the_small_form_has_every_fault_and_loses_the_answer_to_a_refund(seed):
    first, second = waves(24)
    plan = draw(first, second, seed)
    counts = Counter(fault.kind for fault in plan.faults.values())
    assert set(counts) == {"drop_reply", "drop_request", "delay"}
    (refund,) = (due for due in (*first, *second) if due.what is What.REFUND)
    assert plan.faults[refund.effect_id].kind == "drop_reply"


@pytest.mark.parametrize("count", [8, 24, 120])
@pytest.mark.parametrize("seed", SEEDS)
def test_killed_and_frozen_workers_are_struck_at_charges_that_meet_no_other_fault(count, seed):
    first, second = waves(count)
    plan = draw(first, second, seed)
    for struck, wave in ((plan.kill, first), (plan.freeze, second)):
        assert struck
        assert set(struck) <= set(wave)
        assert all(due.exists and due.what is What.CHARGE for due in struck)
        assert not {due.effect_id for due in struck} & set(plan.faults)
