"""References in requests, and places in answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx
import pytest

from ascertain.adapters import place, template
from ascertain.adapters.sending import Phase
from ascertain.adapters.template import MissingValueError
from ascertain.adapters.wire import Exchange

if TYPE_CHECKING:
    from pydantic import JsonValue

SCOPE: dict[str, JsonValue] = {
    "effect_id": "ef1-a",
    "input": {
        "amount": 1999,
        "rate": 0.5,
        "paid": True,
        "tags": ["x", "y"],
        "none": None,
        "t": "a/b c",
    },
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{input.amount}", 1999),
        ("{input.rate}", 0.5),
        ("{input.paid}", True),
        ("{input.tags}", ["x", "y"]),
        ("{input.tags.1}", "y"),
        ("n{input.amount}", "n1999"),
        ("{input.paid}!", "true!"),
        ("{{{effect_id}}}", "{ef1-a}"),
        ("{{effect_id}}", "{effect_id}"),
        ("", ""),
        ("plain", "plain"),
    ],
)
def test_a_lone_reference_keeps_its_type_and_one_in_text_becomes_text(text: str, value: JsonValue):
    rendered = template.parse(text).value(SCOPE)
    assert rendered == value
    assert type(rendered) is type(value)


@pytest.mark.parametrize(
    "text", ["{", "}", "{effect_id", "effect_id}", "{a{b}}", "{}", "{.}", "{input..a}"]
)
def test_a_brace_that_does_not_fit_is_refused(text: str):
    with pytest.raises(ValueError, match=r"brace|step|written"):
        template.parse(text)


def test_an_unknown_reference_is_refused_and_the_known_ones_are_named():
    with pytest.raises(ValueError, match=r"unknown reference \{inptu.amount\}.*effect_id"):
        template.parse("{inptu.amount}")


@pytest.mark.parametrize(
    "text", ["{input.gone}", "{input.none}", "a{input.gone}", "{undoes.external_id}"]
)
def test_a_reference_that_leads_to_nothing_is_missing(text: str):
    with pytest.raises(MissingValueError, match="missing"):
        template.parse(text).value(SCOPE)


def test_an_optional_field_that_leads_to_nothing_is_left_out():
    form = template.parse_form(
        {"a": "{input.amount?}", "b": "{input.gone?}", "c": ["{input.gone?}", 1]}
    )
    assert form.render(SCOPE) == {"a": 1999, "c": [1]}


def test_a_required_field_inside_a_form_is_missing():
    with pytest.raises(MissingValueError):
        template.parse_form({"a": {"b": ["{input.gone}"]}}).render(SCOPE)


def test_in_an_address_a_value_is_one_escaped_segment():
    assert template.parse("/f/{input.t}").text(SCOPE, in_address=True) == "/f/a%2Fb%20c"


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_in_an_address_a_value_cannot_be_empty_or_climb(value: str):
    with pytest.raises(MissingValueError, match="fits no address"):
        template.parse("/f/{input.t}").text({"input": {"t": value}}, in_address=True)


def test_a_list_does_not_become_text():
    with pytest.raises(MissingValueError, match="plain value"):
        template.parse("x{input.tags}").value(SCOPE)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("id", "a"),
        ("data.0.id", "b"),
        ("data.1.id", None),
        ("data.x", None),
        ("id.x", None),
        ("header:Location", "/a"),
        ("header:location", "/a"),
        ("header:Gone", None),
    ],
)
def test_a_place_in_an_answer(where: str, value: str | None):
    exchange = Exchange(
        phase=Phase.ANSWERED,
        headers=httpx.Headers({"Location": "/a"}),
        body=b'{"id": "a", "data": [{"id": "b"}]}',
    )
    assert place.parse(where).of(exchange) == value


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ("1", 1, False),
        (None, False, False),
        (True, True, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": [1]}, {"a": [True]}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1], [1, 1], False),
    ],
)
def test_equality_of_json_values(left: JsonValue, right: JsonValue, equal: bool):
    assert place.same(left, right) is equal


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (7, "7"),
        (True, None),
        ("", None),
        (" ", None),
        (1.5, None),
        ([], None),
        ("x" * 256, None),
    ],
)
def test_an_external_id_is_text_or_an_integer(value: JsonValue, text: str | None):
    assert place.id_in(value) == text


NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ("2026-04-01T12:00:00Z", NOON),
        ("2026-04-01T14:00:00+02:00", NOON),
        ("2026-04-01T12:00:00", NOON),
        (int(NOON.timestamp()), NOON),
        (int(NOON.timestamp()) * 1000, NOON),
        ("yesterday", None),
        (10**400, None),
        (True, None),
        (None, None),
    ],
)
def test_a_time_is_iso_or_seconds_or_milliseconds(value: JsonValue, at: datetime | None):
    assert place.time_in(value) == at
