from __future__ import annotations

import pytest

from ascertain.census import Census, upper_bound
from ascertain.contracts.census import Discord
from ascertain.contracts.effect import State
from ascertain.ports import Listed, Standing


def census(settled, *listed):
    facts = {fact.external_id: fact for fact in listed}
    return Census("toy.fact", settled=settled, listed=facts)


def known(**states):
    return {name: Standing("toy.fact", state) for name, state in states.items()}


def found(report):
    return [(one.discord, one.effect_id) for one in report.discrepancies]


def test_an_outside_that_agrees_has_no_discrepancy_and_a_bounded_rate():
    facts = [Listed(f"f{n}", f"e{n}", stands=True) for n in range(100)]
    settled = {f"e{n}": f"f{n}" for n in range(100)}
    report = census(settled, *facts).report(known(**dict.fromkeys(settled, State.SETTLED)))
    assert found(report) == []
    assert (report.effects, report.duplicates, report.duplicate_effect_rate) == (100, 0, 0)
    assert report.duplicate_effect_rate_upper == pytest.approx(0.0295, abs=0.0001)


def test_two_facts_of_one_effect_are_a_duplicate():
    facts = Listed("f1", "e1", stands=True), Listed("f2", "e1", stands=True)
    report = census({"e1": "f1"}, *facts).report(known(e1=State.SETTLED))
    assert found(report) == [(Discord.DUPLICATE, "e1")]
    assert report.duplicate_effect_rate == 1


def test_a_refused_try_beside_the_fact_is_no_duplicate():
    facts = Listed("f1", "e1", stands=False), Listed("f2", "e1", stands=True)
    report = census({"e1": "f2"}, *facts).report(known(e1=State.SETTLED))
    assert found(report) == []


def test_a_fact_that_the_ledger_does_not_know_or_denies_is_told():
    facts = Listed("f1", "e1", stands=True), Listed("f2", "e2", stands=True)
    report = census({}, *facts).report(known(e2=State.REFUSED))
    assert found(report) == [(Discord.UNRECORDED, "e1"), (Discord.DENIED, "e2")]


def test_an_effect_that_is_still_in_doubt_is_no_discrepancy():
    report = census({}, Listed("f1", "e1", stands=True)).report(known(e1=State.UNKNOWN))
    assert found(report) == []


def test_a_settled_fact_that_is_gone_or_reversed_is_told():
    facts = Listed("f2", "e2", stands=False, state="reversed"), Listed("f4", "e3", stands=True)
    settled = {"e1": "f1", "e2": "f2", "e3": "f3"}
    report = census(settled, *facts).report(known(**dict.fromkeys(settled, State.SETTLED)))
    assert found(report) == [
        (Discord.VANISHED, "e1"),
        (Discord.CHANGED, "e2"),
        (Discord.CHANGED, "e3"),
    ]
    assert "reversed" in report.discrepancies[1].detail


def test_facts_of_other_kinds_and_of_nobody_are_not_counted():
    facts = Listed("f1", "e1", stands=True), Listed("f2", None, stands=True)
    other = {"e1": Standing("toy.other", State.SETTLED)}
    report = census({}, *facts).report(other)
    assert (report.effects, report.foreign, found(report)) == (0, 2, [])


@pytest.mark.parametrize(
    ("hits", "of", "bound"), [(0, 0, 1), (0, 60, 0.0487), (1, 100, 0.0466), (5, 5, 1)]
)
def test_the_bound_is_the_exact_one(hits, of, bound):
    assert upper_bound(hits, of) == pytest.approx(bound, abs=0.0005)
