"""Payments and refunds against localstripe, which nobody here wrote and which ignores idempotency keys."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from ascertain.adapters.stripe import create
from ascertain.contracts import finding, outcome
from ascertain.contracts.semantics import LookupBy
from ascertain.errors import InvalidSettings, InvalidTask, LookupDown
from tests.adapters.calls import KEY, WITHIN, GivenPermit, GivenSecrets, call, effect
from tests.adapters.localstripe_process import localstripe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ascertain.adapters.declared import DeclaredAdapter
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.outcome import Outcome

PAYS = {"amount": 1999, "currency": "EUR", "payment_method": "pm_card_visa"}
DECLINED = PAYS | {"payment_method": "pm_card_chargeCustomerFail"}
CHARGE = effect("stripe.charge", PAYS)


@pytest.fixture(scope="module")
async def shop() -> AsyncIterator[str]:
    async with localstripe() as address:
        yield address


@pytest.fixture
async def stripe(shop: str) -> AsyncIterator[httpx.AsyncClient]:
    """The shop's own books, emptied."""
    async with httpx.AsyncClient(
        base_url=shop, headers={"Authorization": f"Bearer {KEY}"}
    ) as client:
        await client.delete("/_config/data")
        yield client


def options(shop: str, **more: Any) -> dict[str, Any]:
    return {"api_key": "secret:KEY", "api_base": shop, **more}


@pytest.fixture
async def charges(shop: str, stripe: httpx.AsyncClient) -> AsyncIterator[DeclaredAdapter]:
    adapter = create("stripe.charge", options(shop), GivenSecrets())
    yield adapter
    await adapter.aclose()


@pytest.fixture
async def refunds(shop: str, stripe: httpx.AsyncClient) -> AsyncIterator[DeclaredAdapter]:
    adapter = create("stripe.refund", options(shop), GivenSecrets())
    yield adapter
    await adapter.aclose()


async def perform(adapter: DeclaredAdapter, what: Effect) -> Outcome:
    return await adapter.perform(call(what, adapter.prepare(what)), GivenPermit())


async def lookup(
    adapter: DeclaredAdapter, what: Effect, job_id: str | None = None
) -> finding.Finding:
    return await adapter.lookup(call(what, adapter.prepare(what), job_id=job_id), within=WITHIN)


async def listed(stripe: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    answer = await stripe.get(path, params={"limit": "1000"})
    return answer.json()["data"]


async def test_a_payment_settles_and_carries_the_effects_id(
    charges: DeclaredAdapter, stripe: httpx.AsyncClient
):
    came_to = await perform(charges, CHARGE)
    assert isinstance(came_to, outcome.Settled)
    (intent,) = await listed(stripe, "/v1/payment_intents")
    assert came_to.receipt.external_id == intent["id"]
    assert intent["metadata"]["effect_id"] == CHARGE.effect_id
    assert intent["metadata"]["task_id"] == CHARGE.task_id
    assert (intent["amount"], intent["currency"]) == (1999, "eur")
    assert came_to.receipt.happened_at is not None
    assert came_to.receipt.happened_at.timestamp() == intent["created"]
    assert came_to.receipt.body["latest_charge"] == intent["latest_charge"]


async def test_a_description_goes_along(charges: DeclaredAdapter, stripe: httpx.AsyncClient):
    came_to = await perform(charges, effect("stripe.charge", PAYS | {"description": "Ünvoice & 7"}))
    assert isinstance(came_to, outcome.Settled)
    (intent,) = await listed(stripe, "/v1/payment_intents")
    assert intent["metadata"]["description"] == "Ünvoice & 7"


async def test_a_payment_is_found_among_many_pages(
    charges: DeclaredAdapter, stripe: httpx.AsyncClient
):
    for number in range(230):
        fields = {"amount": 1999, "currency": "eur", "metadata[effect_id]": f"other-{number}"}
        await stripe.post("/v1/payment_intents", data=fields)
    assert isinstance(await lookup(charges, CHARGE), finding.Absent)
    paid = await perform(charges, CHARGE)
    found = await lookup(charges, CHARGE)
    assert isinstance(paid, outcome.Settled)
    assert isinstance(found, finding.Found)
    assert found.receipt.external_id == paid.receipt.external_id


async def test_a_declined_card_is_refused_by_its_code_and_stays_refused_in_the_lookup(
    charges: DeclaredAdapter, stripe: httpx.AsyncClient
):
    what = effect("stripe.charge", DECLINED)
    came_to = await perform(charges, what)
    assert isinstance(came_to, outcome.Refused)
    assert came_to.error_class == "card_declined"
    assert len(await listed(stripe, "/v1/payment_intents")) == 1

    found = await lookup(charges, what)
    assert isinstance(found, finding.Refused)
    assert found.error_class == "card_declined"


async def test_a_payment_after_a_declined_one_is_the_fact(charges: DeclaredAdapter):
    await perform(charges, effect("stripe.charge", DECLINED))
    await perform(charges, CHARGE)
    assert isinstance(await lookup(charges, CHARGE), finding.Found)


async def test_two_payments_of_one_effect_are_several(
    charges: DeclaredAdapter, stripe: httpx.AsyncClient
):
    await perform(charges, CHARGE)
    await perform(charges, CHARGE)  # the key is sent, and this server ignores it
    found = await lookup(charges, CHARGE)
    assert isinstance(found, finding.Several)
    intents = await listed(stripe, "/v1/payment_intents")
    assert set(found.external_ids) == {intent["id"] for intent in intents}


@pytest.mark.parametrize(
    ("other", "expected", "seen"),
    [
        ({"amount": 5}, {"amount": 1999}, {"amount": 5}),
        ({"currency": "usd"}, {"currency": "eur"}, {"currency": "usd"}),
    ],
)
async def test_a_payment_of_another_amount_differs(
    charges: DeclaredAdapter, other: dict[str, Any], expected: Any, seen: Any
):
    await perform(charges, effect("stripe.charge", PAYS | other))
    found = await lookup(charges, CHARGE)
    assert isinstance(found, finding.Differs)
    assert (found.expected, found.found) == (expected, seen)


async def test_a_payment_that_waits_for_the_customer_is_accepted_and_then_found(
    charges: DeclaredAdapter, stripe: httpx.AsyncClient
):
    card = {"number": "4000002500003155", "exp_month": 12, "exp_year": 2030, "cvc": "123"}
    fields = {"type": "card"} | {f"card[{name}]": str(value) for name, value in card.items()}
    method = (await stripe.post("/v1/payment_methods", data=fields)).json()["id"]
    what = effect("stripe.charge", PAYS | {"payment_method": method})

    came_to = await perform(charges, what)
    assert isinstance(came_to, outcome.Accepted)
    assert came_to.job_id.startswith("pi_")
    assert isinstance(await lookup(charges, what, came_to.job_id), finding.Pending)
    assert isinstance(await lookup(charges, what), finding.Pending)

    intent = (await stripe.get(f"/v1/payment_intents/{came_to.job_id}")).json()
    secret = {"client_secret": intent["client_secret"], "success": "true"}
    await stripe.post(f"/v1/payment_intents/{came_to.job_id}/_authenticate", data=secret)
    found = await lookup(charges, what, came_to.job_id)
    assert isinstance(found, finding.Found)
    assert found.receipt.external_id == came_to.job_id


async def test_a_refund_takes_back_the_payment_that_it_undoes(
    charges: DeclaredAdapter, refunds: DeclaredAdapter, stripe: httpx.AsyncClient
):
    paid = await perform(charges, CHARGE)
    assert isinstance(paid, outcome.Settled)
    undo = effect("stripe.refund", {}, undoes=paid.receipt.external_id)
    assert isinstance(await lookup(refunds, undo), finding.Absent)

    came_to = await perform(refunds, undo)
    assert isinstance(came_to, outcome.Settled)
    (refund,) = await listed(stripe, "/v1/refunds")
    assert came_to.receipt.external_id == refund["id"]
    assert (refund["amount"], refund["payment_intent"]) == (1999, paid.receipt.external_id)
    found = await lookup(refunds, undo)
    assert isinstance(found, finding.Found)
    assert found.receipt.external_id == refund["id"]


async def test_a_refund_of_a_part_is_compared_by_its_amount(
    charges: DeclaredAdapter, refunds: DeclaredAdapter
):
    paid = await perform(charges, CHARGE)
    assert isinstance(paid, outcome.Settled)
    part = effect("stripe.refund", {"amount": 500}, undoes=paid.receipt.external_id)
    other = effect("stripe.refund", {"amount": 600}, undoes=paid.receipt.external_id)
    assert isinstance(await perform(refunds, part), outcome.Settled)
    assert isinstance(await lookup(refunds, part), finding.Found)
    assert isinstance(await lookup(refunds, other), finding.Differs)


async def test_a_refund_of_a_payment_that_is_not_there_is_refused(refunds: DeclaredAdapter):
    undo = effect("stripe.refund", {}, undoes="pi_gone")
    assert isinstance(await perform(refunds, undo), outcome.Refused)
    with pytest.raises(LookupDown):
        await lookup(refunds, undo)


async def test_a_wrong_key_is_not_done_and_can_be_mended(shop: str):
    adapter = create("stripe.charge", options(shop), GivenSecrets({"KEY": "wrong"}))
    came_to = await perform(adapter, CHARGE)
    with pytest.raises(LookupDown, match="HTTP 401"):
        await lookup(adapter, CHARGE)
    await adapter.aclose()
    assert isinstance(came_to, outcome.NotDone)
    assert came_to.error_class == "http_401"


async def test_a_filter_that_the_server_refuses_says_nothing(shop: str):
    adapter = create("stripe.charge", options(shop, created_filter=True), GivenSecrets())
    with pytest.raises(LookupDown, match="HTTP 400"):
        await lookup(adapter, CHARGE)
    await adapter.aclose()


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount": 0},
        {"amount": -5},
        {"amount": 19.99},
        {"amount": "1999"},
        {"amount": True},
        {"currency": "euro"},
        {"currency": "€"},
        {"payment_method": "4242424242424242"},
        {"payment_method": "pm_card_visa&amount=1"},
        {"customer": "somebody"},
        {"description": "x" * 501},
        {"amonut": 5},
    ],
)
async def test_a_payment_that_cannot_be_meant_is_refused_before_it_is_sent(
    charges: DeclaredAdapter, wrong: dict[str, Any]
):
    with pytest.raises(InvalidTask, match=next(iter(wrong))):
        charges.prepare(effect("stripe.charge", PAYS | wrong))


async def test_input_that_a_newer_release_no_longer_takes_is_not_sent_and_waits_for_a_person(
    charges: DeclaredAdapter, stripe: httpx.AsyncClient
):
    frozen = charges.prepare(CHARGE)
    old = call(effect("stripe.charge", PAYS | {"given_up": 1}), frozen)
    permit = GivenPermit()
    came_to = await charges.perform(old, permit)
    assert isinstance(came_to, outcome.NotDone)
    assert permit.checks == 0
    assert await listed(stripe, "/v1/payment_intents") == []
    assert isinstance(await charges.lookup(old, within=WITHIN), finding.Unknowable)


async def test_a_refund_of_nothing_is_refused_before_it_is_sent(refunds: DeclaredAdapter):
    with pytest.raises(InvalidTask, match="undoes"):
        refunds.prepare(effect("stripe.refund", {"amount": 5}))


def test_stripe_itself_is_declared_as_it_promises():
    semantics = create("stripe.charge", {"api_key": "secret:KEY"}, GivenSecrets()).semantics
    assert semantics.resend_for == timedelta(hours=23)
    assert semantics.compares_bodies
    assert semantics.lookup is LookupBy.LISTING
    assert semantics.lag > timedelta(0)


def test_the_listing_is_bounded_in_time_at_stripe_itself_only(shop: str):
    charge = create("stripe.charge", {"api_key": "secret:KEY"}, GivenSecrets())
    compatible = create("stripe.charge", options(shop), GivenSecrets())
    assert b'"prepared_at"' in charge.prepare(CHARGE)
    assert b'"prepared_at"' not in compatible.prepare(CHARGE)


def test_the_key_is_never_in_the_deployment_file():
    with pytest.raises(InvalidSettings, match=r"options\.api_key") as caught:
        create("stripe.charge", {"api_key": KEY}, GivenSecrets())
    assert KEY not in str(caught.value)


def test_a_kind_that_does_not_say_what_it_does_is_refused():
    with pytest.raises(InvalidSettings, match=r'kinds\."eu\.payment"\.options\.does'):
        create("eu.payment", {"api_key": "secret:KEY"}, GivenSecrets())
    create("eu.payment", {"api_key": "secret:KEY", "does": "charge"}, GivenSecrets())
