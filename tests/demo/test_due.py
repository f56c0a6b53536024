from __future__ import annotations

from collections import Counter

from ascertain.contracts.task import Task
from ascertain.keys import effect_id
from starter.demo import payment
from starter.demo.compare import What
from starter.demo.due import dues


def charge(name, card, **more):
    content = {"amount": 100, "currency": "eur", "payment_method": card, "description": "x"}
    return {"name": name, "kind": "stripe.charge", "input": content, **more}


def of(*steps):
    task = Task.model_validate({"task_id": "pay-1", "kind": "payment", "steps": steps})
    return dues([task], "default")


def test_a_good_card_should_be_charged_under_the_id_that_the_workflow_derives():
    (due,) = of(charge("charge", "pm_card_visa"))
    assert due.exists
    assert due.effect_id == effect_id("default", "pay-1", "charge", 0)


def test_what_follows_a_declined_card_is_never_due():
    found = of(charge("one", "pm_card_chargeCustomerFail"), charge("two", "pm_card_visa"))
    assert [(due.step, due.exists) for due in found] == [("one", False)]


def test_a_charge_with_an_undo_is_due_together_with_its_refund_when_a_later_card_is_declined():
    undo = {"kind": "stripe.refund"}
    found = of(
        charge("one", "pm_card_visa", undo=undo),
        charge("two", "pm_card_visa"),
        charge("three", "pm_card_visa", undo=undo),
        charge("four", "pm_card_chargeCustomerFail"),
    )
    assert [(due.step, due.what) for due in found[4:]] == [
        ("three~undo", What.REFUND),
        ("one~undo", What.REFUND),
    ]
    assert found[5].undoes == found[0].effect_id


def test_the_example_has_more_than_a_hundred_payments_in_several_currencies_some_refused_some_undone():
    tasks = payment.load()
    found = dues(tasks, "default")
    assert len(tasks) >= 100
    assert len({due.currency for due in found}) >= 3
    assert Counter(due.what for due in found)[What.REFUND] == 3
    assert sum(not due.exists for due in found) == 9
    assert len({due.effect_id for due in found}) == len(found)
