from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime, timedelta

import pytest

from ascertain import keys
from ascertain.door import MAX_INPUT_BYTES, admit, in_time, task_fingerprint
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
        (task(deadline="2027-01-31T18:00:00"), "deadline"),
        (task(deadline="tomorrow"), "deadline"),
        (task(deadline=1_800_000_000), "deadline"),
        (task(deadline="1800000000"), "deadline"),
        (task(deadline="9999-12-31T23:59:59-05:00"), "deadline"),
        ({}, "task_id"),
        ([], "must be a JSON object"),
        (b"{}", "must be a JSON object"),
        (None, "must be a JSON object"),
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


def test_a_task_without_a_deadline_has_the_fingerprint_that_it_had_before_there_were_any():
    step = {"name": "charge", "kind": "toy.fact", "input": {"amount": 1}, "undo": None}
    content = {
        "task_id": "pay-1",
        "kind": "payment",
        "partition": "default",
        "steps": [step],
        "undo_on_cancel": False,
    }
    assert task_fingerprint(admit(task())) == hashlib.sha256(keys.canonical(content)).hexdigest()


def test_one_deadline_is_the_same_however_it_is_written_and_another_is_other_content():
    one, same, other = (
        task_fingerprint(admit(task(deadline=text)))
        for text in ("2027-01-31T18:00:00Z", "2027-01-31T19:00:00.000+01:00", "2027-01-31T18:00Z")
    )
    assert one == same == other
    assert task_fingerprint(admit(task(deadline="2027-01-31T18:00:01Z"))) != one
    assert task_fingerprint(admit(task())) != one


def test_a_deadline_that_has_passed_is_refused():
    at = datetime(2027, 1, 31, 18, tzinfo=UTC)
    late = admit(task(deadline=at))
    assert in_time(late, at - timedelta(seconds=1)) is late
    for then in (at, at + timedelta(days=1)):
        with pytest.raises(InvalidTask, match=r"its deadline 2027-01-31T18:00:00.* has passed"):
            in_time(late, then)
    assert in_time(admit(task()), at)
