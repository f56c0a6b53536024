from __future__ import annotations

import pytest

from ascertain.census import upper_bound


def test_with_nothing_seen_the_bound_is_the_exact_rule_of_three():
    assert upper_bound(0, 1000) == pytest.approx(1 - 0.05 ** (1 / 1000))
    assert upper_bound(0, 1000) < 3 / 1000


def test_the_bound_is_that_of_the_tables():
    assert upper_bound(1, 100) == pytest.approx(0.0466, abs=1e-4)
    assert upper_bound(3, 50) == pytest.approx(0.1478, abs=1e-4)


def test_without_trials_or_without_success_nothing_is_excluded():
    assert upper_bound(0, 0) == 1
    assert upper_bound(5, 5) == 1


def test_many_trials_do_not_overflow():
    assert 0 < upper_bound(2, 20_000) < 0.001
