"""Answers that Stripe gives and no server at hand does: written down here, and read by the adapter."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ascertain.adapters.stripe import create
from ascertain.contracts import finding, outcome
from ascertain.errors import InvalidTask
from tests.adapters.calls import KEY, WITHIN, GivenPermit, GivenSecrets, call, effect
from tests.adapters.raw_server import Peer, RawServer, raw_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ascertain.adapters.declared import DeclaredAdapter
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.outcome import Outcome

CHARGE = effect(
    "stripe.charge", {"amount": 1999, "currency": "EUR", "payment_method": "pm_card_visa"}
)
REFUND = effect("stripe.refund", {}, undoes="pi_1")


@contextlib.asynccontextmanager
async def answering(
    status: int, body: Any, kind: str = "stripe.charge", *, headers: str = "", **options: Any
) -> AsyncIterator[tuple[DeclaredAdapter, RawServer]]:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            sent = json.dumps(body).encode()
            head = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(sent)}\r\n{headers}\r\n"
            await peer.send(head.encode() + sent)

    async with raw_server(script) as server:
        given = {"api_key": "secret:KEY", "api_base": server.url("").rstrip("/"), **options}
        adapter = create(kind, given, GivenSecrets())
        try:
            yield adapter, server
        finally:
            await adapter.aclose()


async def perform(adapter: DeclaredAdapter, what: Effect) -> Outcome:
    return await adapter.perform(call(what, adapter.prepare(what)), GivenPermit())


async def lookup(adapter: DeclaredAdapter, what: Effect) -> finding.Finding:
    return await adapter.lookup(call(what, adapter.prepare(what)), within=WITHIN)


def intent(**changes: Any) -> dict[str, Any]:
    made = {
        "id": "pi_1",
        "status": "succeeded",
        "amount": 1999,
        "currency": "eur",
        "created": 1_700_000_000,
        "metadata": {"effect_id": CHARGE.effect_id},
        "last_payment_error": None,
    }
    return made | changes


def error(**fields: Any) -> dict[str, Any]:
    return {"error": {"message": "A sentence.", **fields}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "error_class"),
    [
        (200, intent(), outcome.Settled, None),
        (200, intent(status="processing"), outcome.Accepted, None),
        (200, intent(status="requires_action"), outcome.Accepted, None),
        (200, intent(status="requires_capture"), outcome.Accepted, None),
        (200, intent(status="requires_payment_method"), outcome.Unknown, "success_without_proof"),
        (200, intent(amount=1), outcome.Unknown, "success_without_proof"),
        (200, intent(currency="usd"), outcome.Unknown, "success_without_proof"),
        (200, intent(metadata={"effect_id": "other"}), outcome.Unknown, "success_without_proof"),
        (200, intent(metadata={}), outcome.Unknown, "success_without_proof"),
        (402, error(code="card_declined", decline_code="do_not_honor"), outcome.Refused, "do_not_honor"),
        (402, error(code="expired_card"), outcome.Refused, "expired_card"),
        (400, error(code="amount_too_small"), outcome.Refused, "amount_too_small"),
        (400, error(type="idempotency_error"), outcome.Unknown, "key_reused"),
        (409, error(code="idempotency_key_in_use"), outcome.Unknown, "in_progress"),
        (409, error(), outcome.Unknown, "exists"),
        (429, error(code="lock_timeout"), outcome.NotDone, "throttled"),
        (429, error(code="rate_limit"), outcome.NotDone, "throttled"),
        (500, error(type="api_error"), outcome.Unknown, "http_500"),
        (503, {}, outcome.Unknown, "http_503"),
    ],
)  # fmt: skip
async def test_what_an_answer_to_a_charge_means(
    status: int, body: Any, kind: type, error_class: str | None
):
    async with answering(status, body) as (adapter, server):
        came_to = await perform(adapter, CHARGE)
        assert type(came_to) is kind
        assert getattr(came_to, "error_class", None) == error_class
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, {"status": "succeeded", "payment_intent": "pi_1"}, outcome.Settled),
        (200, {"status": "succeeded", "payment_intent": "pi_2"}, outcome.Unknown),
        (200, {"status": "pending", "payment_intent": "pi_1"}, outcome.Accepted),
        (200, {"status": "failed", "payment_intent": "pi_1"}, outcome.Unknown),
        (400, error(code="charge_already_refunded"), outcome.Unknown),
        (400, error(code="charge_disputed"), outcome.Refused),
    ],
)
async def test_what_an_answer_to_a_refund_means(status: int, body: Any, kind: type):
    given = {"id": "re_1", "amount": 5, "metadata": {"effect_id": REFUND.effect_id}} | body
    async with answering(status, given, "stripe.refund") as (adapter, _):
        assert type(await perform(adapter, REFUND)) is kind


DECLINED = {"code": "card_declined", "decline_code": "lost_card"}


@pytest.mark.parametrize(
    ("intents", "kind"),
    [
        ([], finding.Absent),
        ([intent()], finding.Found),
        ([intent(metadata={"effect_id": "other"})], finding.Absent),
        ([intent(status="processing")], finding.Pending),
        ([intent(status="requires_payment_method")], finding.Pending),
        ([intent(status="requires_payment_method", last_payment_error=DECLINED)], finding.Refused),
        ([intent(status="canceled", canceled_at=1_700_000_001)], finding.Refused),
        ([intent(status="a_new_word")], finding.Unknowable),
        ([intent(amount=5)], finding.Differs),
        ([intent(amount=5, status="processing")], finding.Differs),
        ([intent(), intent(id="pi_2")], finding.Several),
        ([intent(), intent(id="pi_2", status="processing")], finding.Several),
        (
            [
                intent(),
                intent(id="pi_2", status="requires_payment_method", last_payment_error=DECLINED),
            ],
            finding.Found,
        ),
    ],
)
async def test_what_a_listing_of_payments_says(intents: list[Any], kind: type):
    async with answering(200, {"data": intents, "has_more": False}) as (adapter, _):
        assert type(await lookup(adapter, CHARGE)) is kind


async def test_a_declined_payment_is_refused_by_its_decline_code():
    declined = intent(status="requires_payment_method", last_payment_error=DECLINED)
    async with answering(200, {"data": [declined], "has_more": False}) as (adapter, _):
        found = await lookup(adapter, CHARGE)
        assert isinstance(found, finding.Refused)
        assert found.error_class == "lost_card"


async def test_the_request_is_the_one_that_stripe_documents():
    versions = {"api_version": "2025-03-31.basil", "account": "acct_1"}
    async with answering(200, intent(), **versions) as (adapter, server):
        await perform(adapter, CHARGE)
        sent = server.requests[0]
        assert sent.line == "POST /v1/payment_intents HTTP/1.1"
        assert sent.headers["authorization"] == f"Bearer {KEY}"
        assert sent.headers["idempotency-key"] == CHARGE.effect_id
        assert sent.headers["content-type"] == "application/x-www-form-urlencoded"
        assert sent.headers["stripe-version"] == "2025-03-31.basil"
        assert sent.headers["stripe-account"] == "acct_1"
        assert parse_qs(sent.body.decode()) == {
            "amount": ["1999"],
            "currency": ["eur"],
            "payment_method": ["pm_card_visa"],
            "payment_method_types[]": ["card"],
            "confirm": ["true"],
            "metadata[effect_id]": [CHARGE.effect_id],
            "metadata[task_id]": [CHARGE.task_id],
        }


async def test_every_attempt_sends_the_same_bytes_under_the_same_key():
    async with answering(500, {}) as (adapter, server):
        frozen = adapter.prepare(CHARGE)
        for attempt in (1, 2):
            await adapter.perform(call(CHARGE, frozen, attempt=attempt), GivenPermit())
        first, second = server.requests
        assert (first.body, first.headers) == (second.body, second.headers)


async def test_a_listing_can_be_bounded_to_the_time_since_the_effect_was_prepared():
    page = {"data": [], "has_more": False}
    async with answering(200, page, created_filter=True) as (adapter, server):
        prepared = json.loads(adapter.prepare(CHARGE))["prepared_at"]
        await lookup(adapter, CHARGE)
        query = parse_qs(urlsplit(server.requests[0].line.split(" ")[1]).query)
        assert query["limit"] == ["100"]
        assert 0 <= int(query["created[gte]"][0]) - (prepared - 3600) <= 5


@pytest.mark.parametrize(
    ("currency", "amount", "taken"),
    [
        ("jpy", 500, True),
        ("krw", 1, True),
        ("kwd", 1230, True),
        ("kwd", 1234, False),
        ("isk", 500, True),
        ("isk", 5, False),
        ("UGX", 501, False),
    ],
)
def test_an_amount_is_counted_as_stripe_counts_its_currency(
    currency: str, amount: int, taken: bool
):
    adapter = create("stripe.charge", {"api_key": "secret:KEY"}, GivenSecrets())
    content = {"amount": amount, "currency": currency, "payment_method": "pm_card_visa"}
    what = effect("stripe.charge", content)
    if taken:
        body = json.loads(adapter.prepare(what))["body"]
        assert parse_qs(body)["amount"] == [str(amount)]
        return
    with pytest.raises(InvalidTask, match="multiple"):
        adapter.prepare(what)
