from __future__ import annotations

from dataclasses import replace

import pytest

from starter.demo.compare import Books, Due, Fact, Recorded, What, compare

CHARGE = Due("ef1-charge", "pay-1", "charge", What.CHARGE, 1999, "eur")
DECLINED = Due("ef1-declined", "pay-2", "charge", What.CHARGE, 500, "usd", exists=False)
DEPOSIT = Due("ef1-deposit", "pay-3", "deposit", What.CHARGE, 300, "jpy")
REFUND = Due("ef1-undo", "pay-3", "deposit~undo", What.REFUND, 300, "jpy", undoes="ef1-deposit")
DUES = (CHARGE, DECLINED, DEPOSIT, REFUND)

PAID = Fact("pi_1", What.CHARGE, "ef1-charge", 1999, "eur")
PAID_DEPOSIT = Fact("pi_3", What.CHARGE, "ef1-deposit", 300, "jpy")
TAKEN_BACK = Fact("re_3", What.REFUND, "ef1-undo", 300, "jpy", of="pi_3")
FACTS = (PAID, PAID_DEPOSIT, TAKEN_BACK)

RECORDED = {
    "ef1-charge": Recorded("SETTLED", "pi_1"),
    "ef1-declined": Recorded("REFUSED", None),
    "ef1-deposit": Recorded("SETTLED", "pi_3"),
    "ef1-undo": Recorded("SETTLED", "re_3"),
}


def books(*facts: Fact, declined: frozenset[str] = frozenset({"ef1-declined"})) -> Books:
    return Books(facts, declined)


def test_books_with_exactly_one_fact_of_each_effect_agree():
    found = compare(DUES, books(*FACTS), RECORDED)
    assert found.ok
    assert (found.facts, found.duplicates, found.lost, found.refused) == (3, 0, 0, 1)


def test_the_ledger_is_not_needed_to_compare():
    assert compare(DUES, books(*FACTS)).ok


def test_a_second_fact_of_one_effect_is_a_duplicate():
    found = compare(DUES, books(*FACTS, replace(PAID, external_id="pi_9")), RECORDED)
    assert not found.ok
    assert found.duplicates == 1
    assert "pay-1" in found.faults[0]
    assert "pi_1, pi_9" in found.faults[0]


def test_a_second_refund_of_one_charge_is_a_duplicate():
    found = compare(DUES, books(*FACTS, replace(TAKEN_BACK, external_id="re_9")), RECORDED)
    assert not found.ok
    assert found.duplicates == 1


def test_a_missing_fact_is_lost():
    found = compare(DUES, books(PAID_DEPOSIT, TAKEN_BACK))
    assert not found.ok
    assert found.lost == 1
    assert found.faults == ("lost: pay-1 charge (ef1-charge) does not exist outside",)


def test_a_fact_that_the_ledger_holds_as_proof_and_the_outside_does_not_know_is_lost():
    vanished = {**RECORDED, "ef1-charge": Recorded("SETTLED", "pi_other")}
    found = compare(DUES, books(*FACTS), vanished)
    assert not found.ok
    assert found.lost == 1


@pytest.mark.parametrize(
    "wrong",
    [replace(PAID, amount=2000), replace(PAID, currency="usd"), replace(PAID, what=What.REFUND)],
    ids=["amount", "currency", "kind"],
)
def test_a_fact_that_is_not_what_was_asked_for_is_a_fault(wrong):
    found = compare(DUES, books(wrong, PAID_DEPOSIT, TAKEN_BACK))
    assert not found.ok
    assert "not what was asked for" in found.faults[0]


def test_a_refund_of_another_charge_is_a_fault():
    found = compare(DUES, books(PAID, PAID_DEPOSIT, replace(TAKEN_BACK, of="pi_1")))
    assert not found.ok
    assert "took back pi_1" in found.faults[0]


def test_a_refund_that_did_not_happen_is_lost():
    found = compare(DUES, books(PAID, PAID_DEPOSIT))
    assert not found.ok
    assert found.lost == 1


@pytest.mark.parametrize("whose", [None, "ef1-somebody-elses"])
def test_a_fact_without_an_effect_is_a_fault(whose):
    found = compare(DUES, books(*FACTS, Fact("pi_8", What.CHARGE, whose, 1, "eur")))
    assert not found.ok
    assert "nobody asked for the charge pi_8" in found.faults[0]


def test_a_payment_that_should_have_been_declined_and_exists_is_a_fault():
    paid = Fact("pi_2", What.CHARGE, "ef1-declined", 500, "usd")
    found = compare(DUES, books(*FACTS, paid))
    assert not found.ok
    assert "should have been refused and exists" in found.faults[0]
    assert found.refused == 1


def test_a_payment_that_was_never_offered_to_be_declined_is_a_fault():
    found = compare(DUES, books(*FACTS, declined=frozenset()))
    assert not found.ok
    assert found.refused == 0


@pytest.mark.parametrize(
    ("effect", "says"),
    [
        ("ef1-charge", Recorded("UNKNOWN", None)),
        ("ef1-charge", Recorded("QUARANTINED", None)),
        ("ef1-declined", Recorded("CLEAR", None)),
        ("ef1-balance", Recorded("CLEAR", None)),
    ],
)
def test_a_ledger_that_says_otherwise_is_a_fault(effect, says):
    found = compare(DUES, books(*FACTS), {**RECORDED, effect: says})
    assert not found.ok
    assert f"the ledger says {says.state} of" in found.faults[0]


def test_an_effect_that_the_ledger_does_not_know_is_a_fault():
    missing = {effect: says for effect, says in RECORDED.items() if effect != "ef1-undo"}
    found = compare(DUES, books(*FACTS), missing)
    assert not found.ok
    assert "the ledger says nothing of pay-3 deposit~undo" in found.faults[0]
