from __future__ import annotations

import math

import pytest

from ascertain.door import MAX_INPUT_BYTES, admit, task_fingerprint
from ascertain.errors import InvalidTask, UnknownKind


def task(**changes):
    whole = {
        "task_id": "pay-1",
        "kind": "payment",
        "steps": [{"name": "charge", "kind": "toy.fact", "input": {"amount": 1}}],
    }
    return {**whole, **changes}


def step(**changes):
    return {"name": "charge", "kind": "toy.fact", **changes}


def deep(levels):
    value = {}
    for _ in range(levels):
        value = {"v": value}
    return value


@pytest.mark.parametrize(
    ("broken", "word"),
    [
        (task(task_id=""), "task_id"),
        (task(task_id="a b"), "task_id"),
        (task(task_id="x" * 129), "task_id"),
        (task(partition="a/b"), "partition"),
        (task(kind="Payment!"), "kind"),
        (task(steps=[]), "steps"),
        (task(steps=[step(), step()]), "more than once: charge"),
        (task(steps=[step(name=f"s{i}") for i in range(51)]), "steps"),
        (task(steps=[step(name="charge~undo")]), "name"),
        (task(steps=[step(inptu={})]), "inptu"),
        (task(surprise=1), "surprise"),
        (task(steps=[step(input={"n": math.nan})]), "canonical"),
        (task(steps=[step(input={"n": math.inf})]), "canonical"),
        (task(steps=[step(input={"n": 2**53 + 1})]), "canonical"),
        (task(steps=[step(input={"t": "x" * MAX_INPUT_BYTES})]), "too large"),
        (task(steps=[step(input=deep(40))]), "deeper"),
        (task(steps=[step(undo={"kind": "toy.fact", "input": {"n": math.nan}})]), "undo input"),
        (task(message_id="a\nb"), "message_id"),
        ({}, "task_id"),
    ],
)
def test_a_broken_task_is_refused_in_one_sentence_that_names_the_place(broken, word):
    with pytest.raises(InvalidTask, match=word) as caught:
        admit(broken)
    assert "\n" not in str(caught.value)


def test_the_refusal_never_repeats_the_input():
    with pytest.raises(InvalidTask) as caught:
        admit(task(steps=[step(input={"card": "4242-secret"}, name="BAD NAME 4242-secret")]))
    assert "4242-secret" not in str(caught.value)


def test_a_kind_that_nobody_serves_is_refused_with_what_there_is():
    with pytest.raises(UnknownKind, match=r"toy\.fact.*serves other\.kind"):
        admit(task(), {"other.kind"})


def test_the_kind_of_an_undo_is_looked_at_too():
    broken = task(steps=[step(undo={"kind": "toy.undo"})])
    with pytest.raises(UnknownKind, match=r"toy\.undo"):
        admit(broken, {"toy.fact"})


def test_a_good_task_is_admitted_as_it_is():
    assert admit(task(), {"toy.fact"}).steps[0].input == {"amount": 1}


def test_another_message_asking_for_the_same_task_does_not_change_it():
    assert task_fingerprint(admit(task(message_id="a"))) == task_fingerprint(
        admit(task(message_id="b"))
    )


def test_another_input_is_another_task():
    other = task(steps=[step(input={"amount": 2})])
    assert task_fingerprint(admit(task())) != task_fingerprint(admit(other))
