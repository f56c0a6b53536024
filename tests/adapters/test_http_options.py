"""A wrong declaration is refused when it is read, and the message names the key."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest

from ascertain.adapters.http import create
from ascertain.contracts.semantics import INLINE_MAX, LookupBy, Semantics
from ascertain.errors import InvalidSettings
from tests.adapters.calls import GivenSecrets

KIND = "note.create"
LEAST: dict[str, Any] = {
    "base_url": "https://notes.example.com",
    "request": {"method": "POST", "url": "/notes", "json": {"text": "{input.text}"}},
    "proof": {"external_id": "id", "require": ["id"]},
}
LOOKUP: dict[str, Any] = {
    "by": "reference",
    "lag": "PT2S",
    "url": "/notes",
    "params": {"reference": "{effect_id}"},
    "items": "data",
    "match": {"reference": "{effect_id}"},
    "external_id": "id",
}
BATCH: dict[str, Any] = {"url": "/batches", "items": "results", "effect_id": "reference"}
JOB = {"url": "/jobs/{job_id}", "external_id": "id"}


def options(**changes: Any) -> dict[str, Any]:
    """The least declaration, with ``part__field=value`` changed; None takes a field away."""
    made: dict[str, Any] = copy.deepcopy(LEAST)
    for name, value in changes.items():
        *parts, field = name.split("__")
        where = made
        for part in parts:
            where = where[part]
        where[field] = value
        if value is None:
            del where[field]
    return made


def test_the_least_declaration_promises_nothing():
    semantics = create(KIND, options(), GivenSecrets()).semantics
    assert semantics == Semantics(max_duration=INLINE_MAX)
    assert semantics.idempotent_for is None
    assert semantics.lookup is None


def test_a_declared_lookup_and_its_lag_are_the_semantics():
    semantics = create(KIND, options(lookup=LOOKUP), GivenSecrets()).semantics
    assert (semantics.lookup, semantics.lag) == (LookupBy.REFERENCE, timedelta(seconds=2))


def test_a_longer_timeout_makes_the_work_longer_than_inline():
    semantics = create(KIND, options(timeout="PT30S"), GivenSecrets()).semantics
    assert semantics.max_duration > INLINE_MAX


def test_no_secret_is_read_before_it_is_needed():
    create(KIND, options(headers={"Authorization": "Bearer secret:KEY"}), GivenSecrets({}))


RULE = {"status": [200], "means": "refused"}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "misspelt": (
        {"reqest": {}},
        r'kinds."note.create".options.reqest: there is no such .* mean request\?',
    ),
    "no request": ({"request": None}, r"options.request: is missing"),
    "method": ({"request__method": "GET"}, r"options.request.method"),
    "reference": (
        {"request__json": {"a": ["{inptu.a}"]}},
        r"options.request.json: unknown reference \{inptu.a\}",
    ),
    "brace": ({"request__url": "/notes/{input.a"}, r"options.request.url: .*single \{"),
    "lookup's reference": (
        {"request__url": "/n/{job_id}"},
        r"request: \{job_id\} is known to lookups",
    ),
    "no origin": ({"base_url": ""}, r"request.url: must begin with http"),
    "scheme": ({"base_url": "ftp://a.example"}, r"request.url: must begin with http"),
    "credentials": ({"base_url": "https://user:pw@a.example"}, r"without credentials"),
    "host by a task": (
        {"request__url": "https://a{input.host}/n"},
        r"without a reference in the host",
    ),
    "host begun by us": (
        {"request__url": "https://a.example{input.host}"},
        r"reference in the host",
    ),
    "whole address": ({"request__url": "{input.url}"}, r"reference in the host"),
    "fragment": ({"request__url": "/notes#a"}, r"fragment"),
    "two bodies": ({"request__form": {"a": "b"}}, r"either json or form"),
    "secret in body": ({"request__json": {"k": "secret:KEY"}}, r"headers only"),
    "secret in address": ({"request__url": "/n?key=secret:KEY"}, r"headers only"),
    "secret in query": ({"request__params": {"k": "secret:KEY"}}, r"headers only"),
    "header name": ({"headers": {"a b": "c"}}, r"options.headers.*is no header name"),
    "our header": ({"headers": {"Content-Length": "3"}}, r"HTTP layer's own"),
    "proof of nothing": ({"proof__require": None}, r"options.proof: name what in the answer"),
    "place": ({"proof__external_id": "a..b"}, r"options.proof.external_id: .*empty step"),
    "proof by refusal": ({"proof__statuses": [404]}, r"options.proof.statuses.0"),
    "status": ({"answers": [RULE | {"status": [99]}]}, r"options.answers.0.status.0"),
    "meaning": ({"answers": [RULE | {"means": "fine"}]}, r"options.answers.0.means"),
    "refused success": ({"answers": [RULE]}, r"options.answers.0: a 2xx status alone"),
    "proved error": ({"answers": [{"status": [409], "means": "proof"}]}, r"only a 2xx answer"),
    "no lag": (
        {"lookup": {k: v for k, v in LOOKUP.items() if k != "lag"}},
        r"lookup.lag: is missing",
    ),
    "no match": ({"lookup": LOOKUP | {"match": {}}}, r"match is missing"),
    "listing to no end": ({"lookup": LOOKUP | {"by": "listing"}}, r"paging to read it to the end"),
    "two ways on": (
        {"lookup": LOOKUP | {"paging": {"param": "c", "next": "c", "first_page": 1}}},
        r"exactly one of next",
    ),
    "no end": (
        {"lookup": LOOKUP | {"paging": {"param": "c", "last_item": "id"}}},
        r"last_item needs more",
    ),
    "state of nothing": ({"lookup": LOOKUP | {"found": ["a"]}}, r"values of state"),
    "no fact": ({"lookup": LOOKUP | {"state": "status"}}, r"found is missing"),
    "job alone": ({"job": JOB}, r"job: needs a lookup"),
    "job's id in lookup": (
        {"lookup": LOOKUP | {"params": {"a": "{job_id}"}}},
        r"lookup: \{job_id\} is known to job only",
    ),
    "batch by effect": ({"batch": BATCH | {"url": "/b/{effect_id}"}}, r"batch: .*refer to none"),
    "batch's secret": ({"batch": BATCH | {"url": "/b?k=secret:KEY"}}, r"headers only"),
    "batch's header": (
        {"batch": BATCH, "headers": {"X-Of": "{effect_id}"}},
        r"batch: .*refer to none",
    ),
    "batch's key": (
        {"batch": BATCH, "request__idempotency_header": "Idempotency-Key"},
        r"batch: one header cannot carry the keys of many",
    ),
    "batch of nothing": (
        {"batch": BATCH, "request__json": None},
        r"batch: the request must have json",
    ),
    "batch of one": ({"batch": BATCH | {"most": 1}}, r"options.batch.most"),
    "floor": ({"throttle": {"floor": 0}}, r"options.throttle: floor"),
    "wire": ({"wire": {"connections": 0}}, r"options.wire.connections"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_declaration_is_refused_by_its_key(wrong: str):
    changes, words = WRONG[wrong]
    with pytest.raises(InvalidSettings, match=words):
        create(KIND, options(**changes), GivenSecrets())


def test_a_refused_value_is_not_repeated():
    with pytest.raises(InvalidSettings) as caught:
        create(KIND, options(headers={"Authorization": ["s3cret"]}), GivenSecrets())
    assert "s3cret" not in str(caught.value)
