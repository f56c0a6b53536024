from __future__ import annotations

import math
import re

import pytest
import rfc8785
from hypothesis import given, strategies as st

from ascertain.errors import InvalidTask
from ascertain.keys import canonical, effect_id, fingerprint, undo_step

TEXT = st.text(max_size=30)


NUMBER = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
LEAF = st.none() | st.booleans() | NUMBER | st.text() | st.text(st.characters(max_codepoint=127))
JSON = st.recursive(LEAF, lambda some: st.lists(some) | st.dictionaries(st.text(), some))


@given(JSON)
def test_canonical_json_is_that_of_rfc_8785(value):
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value",
    [
        1e21,
        1e-7,
        -0.0,
        5e-324,
        2**53 - 1,
        {"\ue000": 1, "\U0001f600": 2},
        '\x7f\u2028\b\f\x01\\/"',
        [1.0],
    ],
)
def test_numbers_and_text_that_writers_disagree_on_are_written_as_rfc_8785_says(value):
    assert canonical(value) == rfc8785.dumps(value)


def test_an_effect_id_never_changes_between_releases():
    # Written down from the first release: a change would orphan every fact that is already outside.
    assert effect_id("default", "pay-0001", "charge", 0) == "ef1-3yb6tgsjkmiwjrdxog76ba3kybjbyngn"
    assert fingerprint("k", {"a": 1}) == (
        "08cd859d000272cab9fb5211ddc26bd6a7fbb69f0d180cbce911ddc5484aff0d"
    )


@given(TEXT, TEXT, TEXT, st.integers(0, 1000))
def test_an_effect_id_fits_a_header_an_object_key_and_a_message_id(namespace, task, step, revision):
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", effect_id(namespace, task, step, revision))


@given(
    st.lists(st.tuples(TEXT, TEXT, TEXT, st.integers(0, 9)), unique=True, min_size=2, max_size=20)
)
def test_different_effects_have_different_ids(names):
    assert len({effect_id(*name) for name in names}) == len(names)


def test_the_order_of_fields_does_not_matter():
    assert fingerprint("k", {"a": 1, "b": [{"x": 1, "y": 2}]}) == fingerprint(
        "k", {"b": [{"y": 2, "x": 1}], "a": 1}
    )


@pytest.mark.parametrize("same", [1, 1.0])
def test_one_is_one_however_it_is_written(same):
    assert fingerprint("k", {"n": same}) == fingerprint("k", {"n": 1})


def test_negative_zero_is_zero():
    assert fingerprint("k", {"n": -0.0}) == fingerprint("k", {"n": 0})


def test_composed_and_decomposed_text_are_different_inputs():
    assert fingerprint("k", {"n": "\u00e9"}) != fingerprint("k", {"n": "e\u0301"})


def test_the_kind_belongs_to_the_fingerprint():
    assert fingerprint("a", {}) != fingerprint("b", {})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2**60, "\ud800"])
def test_what_has_no_canonical_json_is_refused(value):
    with pytest.raises(InvalidTask):
        canonical({"n": value})


def test_an_undo_step_cannot_be_named_by_a_task():
    assert not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", undo_step("charge"))
