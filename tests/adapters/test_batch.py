"""One call for many effects: each is judged by its own item of the answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ascertain.adapters import template
from ascertain.adapters.batch import BatchForm, judge_many
from ascertain.adapters.judgement import Meaning, meaning_of
from ascertain.adapters.place import id_in, parse
from ascertain.adapters.sending import Phase
from ascertain.adapters.throttle import Throttle
from ascertain.adapters.wire import Exchange
from ascertain.contracts import outcome
from ascertain.contracts.effect import Receipt
from ascertain.errors import PermitLost

NOW = datetime(2026, 1, 2, tzinfo=UTC)
URL = template.parse("/batches")
FORM = BatchForm(
    url=URL, items=parse("results"), effect_id=parse("reference"), status=parse("status")
)


class ItemReading:
    def __init__(self, effect_id: str) -> None:
        self.effect_id = effect_id

    def meaning(self, exchange: Exchange) -> Meaning:
        return meaning_of(exchange.status or 0)

    def proof(self, exchange: Exchange) -> Receipt | None:
        external_id = id_in(parse("id").of(exchange))
        return None if external_id is None else Receipt(external_id=external_id)

    def job_id(self, exchange: Exchange) -> str:
        return self.effect_id

    def reason(self, exchange: Exchange) -> str:
        return str(parse("error").of(exchange) or "")


def judged(exchange: Exchange, *ids: str, form: BatchForm = FORM) -> list[outcome.Outcome]:
    return judge_many(exchange, form, ids, ItemReading, Throttle(), now=NOW)


def answered(*items: dict[str, Any], status: int = 207, **changes: Any) -> Exchange:
    body = json.dumps({"results": items}).encode()
    return Exchange(phase=Phase.ANSWERED, status=status, body=body, **changes)


def item(reference: str, status: int, **more: Any) -> dict[str, Any]:
    return {"reference": reference, "status": status, **more}


def test_each_effect_has_the_outcome_of_its_own_item_in_the_order_that_was_sent():
    came_to = judged(
        answered(
            item("d", 202),
            item("b", 400, error="no_such_account"),
            item("a", 201, id="fact-a"),
            item("c", 500),
            item("somebody-elses", 201, id="fact-x"),
        ),
        *("a", "b", "c", "d", "e"),
    )
    assert [type(one) for one in came_to] == [
        outcome.Settled,
        outcome.Refused,
        outcome.Unknown,
        outcome.Accepted,
        outcome.Unknown,
    ]
    assert came_to[0].receipt.external_id == "fact-a"
    assert came_to[1].error_class == "no_such_account"
    assert came_to[4].error_class == "not_mentioned"


@pytest.mark.parametrize(
    ("items", "error_class"),
    [
        ((), "not_mentioned"),
        ((item("a", 201, id="1"), item("a", 201, id="2")), "mentioned_twice"),
        (({"reference": "a", "id": "1"},), "no_status"),
        ((item("a", 207, id="1"),), "no_status"),
        ((item("a", 201),), "success_without_proof"),
        ((item("a", True, id="1"),), "no_status"),
    ],
)
def test_an_item_that_does_not_tell_leaves_its_effect_in_doubt(items: Any, error_class: str):
    (came_to,) = judged(answered(*items), "a")
    assert isinstance(came_to, outcome.Unknown)
    assert came_to.error_class == error_class


@pytest.mark.parametrize("body", [b"", b"{", b'{"results": {"a": 1}}', b"[]"])
def test_an_answer_that_cannot_be_read_leaves_all_of_them_in_doubt(body: bytes):
    exchange = Exchange(phase=Phase.ANSWERED, status=207, body=body)
    assert [type(one) for one in judged(exchange, "a", "b")] == [outcome.Unknown] * 2


@pytest.mark.parametrize(
    ("exchange", "kind"),
    [
        (Exchange(phase=Phase.NEVER_LEFT, error_class="connection_refused"), outcome.NotDone),
        (Exchange(phase=Phase.LEFT, error_class="silence"), outcome.Unknown),
        (Exchange(phase=Phase.ANSWERED, status=504), outcome.Unknown),
        (Exchange(phase=Phase.ANSWERED, status=401), outcome.NotDone),
    ],
)
def test_what_is_said_of_the_whole_call_is_said_of_each(exchange: Exchange, kind: type):
    assert [type(one) for one in judged(exchange, "a", "b")] == [kind, kind]


def test_a_refusal_of_the_whole_batch_closes_none_of_its_effects():
    came_to = judged(Exchange(phase=Phase.ANSWERED, status=400), "a", "b")
    assert [(type(one), one.error_class) for one in came_to] == [
        (outcome.Unknown, "batch_refused")
    ] * 2


def test_a_status_of_the_whole_holds_for_each_item_where_items_have_none():
    form = BatchForm(url=URL, items=parse("results"), effect_id=parse("reference"))
    answer = answered({"reference": "a", "id": "1"}, status=200)
    assert isinstance(judged(answer, "a", form=form)[0], outcome.Settled)
    assert isinstance(judged(answered({"reference": "a"}), "a", form=form)[0], outcome.Unknown)


def test_a_lost_permit_is_everybodys():
    lost = PermitLost("fenced")
    with pytest.raises(PermitLost):
        judged(Exchange(phase=Phase.NEVER_LEFT, refusal=lost), "a", "b")
