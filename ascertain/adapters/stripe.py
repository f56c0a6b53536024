"""The ``stripe`` adapter: a payment, and a refund as its undo.

::

    [kinds."stripe.charge"]
    adapter = "stripe"
    options = { api_key = "secret:STRIPE_KEY" }

    [kinds."stripe.refund"]
    adapter = "stripe"
    options = { api_key = "secret:STRIPE_KEY" }

It speaks Stripe's HTTP API itself. Stripe's library retries on its own and keeps a connection pool of its
own, and both lie below the line at which Ascertain decides whether a request has left.

The semantics are those of Stripe. A server that is only compatible with it may keep less of them (some
ignore the idempotency key): then the deployment's ``semantics`` must say so.

Source:
    Stripe's API reference on idempotent requests, errors, PaymentIntents, refunds and pagination; its page
    on currencies (zero-decimal, three-decimal, special cases).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, StringConstraints, model_validator

from ascertain.adapters import saying
from ascertain.adapters.declaration import Declaration, WireForm, read
from ascertain.adapters.declared import DeclaredAdapter
from ascertain.adapters.throttle import Throttle
from ascertain.contracts.semantics import LookupBy, Semantics
from ascertain.contracts.value import JsonObject, StrictValue
from ascertain.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ascertain.ports import Secrets

# Keys can be removed once they are at least 24 hours old. Stripe's own clients give up after 80 seconds.
# Its lists show an object at once; the lag is for what stands between us and them.
SEMANTICS: Final = Semantics(
    idempotent_for=timedelta(hours=24),
    key_margin=timedelta(hours=1),
    compares_bodies=True,
    lookup=LookupBy.LISTING,
    lag=timedelta(seconds=10),
    in_flight_max=timedelta(seconds=80),
)

_WORKED_ON: Final = ["processing", "requires_action", "requires_capture", "requires_confirmation"]
_PAGING: Final[JsonObject] = {"param": "starting_after", "last_item": "id", "more": "has_more"}
_OURS: Final[JsonObject] = {"metadata.effect_id": "{effect_id}"}
_WRITE: Final[JsonObject] = {"method": "POST", "idempotency_header": "Idempotency-Key"}
_METADATA: Final[JsonObject] = {
    "metadata[effect_id]": "{effect_id}",
    "metadata[task_id]": "{task_id}",
}

# Amounts of these must be whole multiples: they have three decimals of which Stripe takes two, or none
# although Stripe counts them in hundredths.
_MULTIPLES: Final = {
    **dict.fromkeys(("bhd", "jod", "kwd", "omr", "tnd"), 10),
    **dict.fromkeys(("isk", "ugx"), 100),
}

Amount = Annotated[int, Field(strict=True, ge=1, le=999_999_999_999)]
Currency = Annotated[str, StringConstraints(pattern=r"^[A-Za-z]{3}$", to_lower=True)]


class ChargeInput(StrictValue):
    """The input of a charge.

    Attributes:
        amount: In the unit that Stripe counts the currency in: cents; whole yen; hundredths of a krona.
        currency: ISO 4217.
        payment_method: A PaymentMethod, or one of Stripe's test tokens such as ``pm_card_visa``.
        description: Kept in the payment's metadata, which every compatible server accepts.
    """

    amount: Amount
    currency: Currency
    payment_method: Annotated[
        str, StringConstraints(pattern=r"^(pm|card|src)_[A-Za-z0-9_]{1,250}$")
    ]
    customer: Annotated[str, StringConstraints(pattern=r"^cus_[A-Za-z0-9_]{1,250}$")] | None = None
    description: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None

    @model_validator(mode="after")
    def _can_be_charged(self) -> ChargeInput:
        multiple = _MULTIPLES.get(self.currency, 1)
        if self.amount % multiple:
            raise ValueError(f"an amount of {self.currency} must be a multiple of {multiple}")
        return self


class RefundInput(StrictValue):
    """The input of a refund. It takes back the payment that it undoes: all of it, or ``amount``."""

    amount: Amount | None = None
    reason: Literal["duplicate", "fraudulent", "requested_by_customer"] | None = None


class StripeOptions(StrictValue):
    """What a deployment says.

    Attributes:
        does: Default: the last word of the kind's name.
        created_filter: Ask only for payments since the effect was first prepared. Default: at Stripe
            itself; some compatible servers refuse it.
    """

    api_key: Annotated[str, StringConstraints(pattern=r"^secret:[A-Za-z0-9_]+$")]
    api_base: str = "https://api.stripe.com"
    api_version: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$")] | None = None
    account: Annotated[str, StringConstraints(pattern=r"^acct_[A-Za-z0-9]+$")] | None = None
    does: Literal["charge", "refund"] | None = None
    payment_method_type: Annotated[str, StringConstraints(pattern=r"^[a-z_]+$")] = "card"
    created_filter: bool | None = None
    timeout: timedelta = timedelta(seconds=4.5)
    throttle: Throttle = Throttle()
    wire: WireForm = WireForm()


def create(kind: str, options: Mapping[str, JsonValue], secrets: Secrets) -> DeclaredAdapter:
    """Build the adapter of one kind from its options.

    Raises:
        InvalidSettings: An option is wrong, or the kind's name does not say what it does.
    """
    chosen = read(StripeOptions, kind, options)
    model: type[ChargeInput | RefundInput]
    match chosen.does or kind.rpartition(".")[2]:
        case "charge":
            parts, model = _charge(chosen), ChargeInput
        case "refund":
            parts, model = _refund(), RefundInput
        case other:
            raise InvalidSettings(
                f'kinds."{kind}".options.does: say charge or refund; {other!r} in the name says neither'
            )
    declaration = read(Declaration, kind, {**_around(chosen), **parts})
    return DeclaredAdapter(
        declaration,
        secrets,
        semantics=SEMANTICS,
        read_input=lambda content: saying.checked(model, content).model_dump(exclude_none=True),
    )


def _around(chosen: StripeOptions) -> JsonObject:
    headers: JsonObject = {"Authorization": f"Bearer {chosen.api_key}"}
    if chosen.api_version is not None:
        headers["Stripe-Version"] = chosen.api_version
    if chosen.account is not None:
        headers["Stripe-Account"] = chosen.account
    return {
        "base_url": chosen.api_base,
        "headers": headers,
        "reason": ["error.decline_code", "error.code", "error.message"],
        "accepted": {"job_id": "id"},
        "timeout": chosen.timeout.total_seconds(),
        "throttle": chosen.throttle.model_dump(mode="json"),
        "wire": chosen.wire.model_dump(mode="json"),
    }


def _answers(*more: JsonObject) -> list[JsonValue]:
    key_reused: JsonObject = {
        "status": [400],
        "where": {"error.type": "idempotency_error"},
        "means": "key_reused",
    }
    in_use: JsonObject = {
        "status": [409],
        "where": {"error.code": "idempotency_key_in_use"},
        "means": "in_progress",
    }
    slow_down: JsonObject = {"status": [429], "means": "refused_before_work"}
    return [key_reused, in_use, slow_down, *more]


def _charge(chosen: StripeOptions) -> JsonObject:
    facts: JsonObject = {
        "match": _OURS,
        "external_id": "id",
        "happened_at": "created",
        "state": "status",
        "found": ["succeeded"],
        "pending": [*_WORKED_ON],
        # Stripe keeps a declined PaymentIntent, which is no fact; while it is being confirmed it can look
        # like one, but without an error.
        "refused": ["requires_payment_method", "canceled"],
        "refused_shows": ["last_payment_error", "canceled_at"],
        "reason": ["last_payment_error.decline_code", "last_payment_error.code"],
        "differs": {"amount": "{input.amount}", "currency": "{input.currency}"},
        "keep": ["status", "amount", "currency", "latest_charge"],
    }
    params: JsonObject = {"limit": "100"}
    if _filters_by_time(chosen):
        params["created[gte]"] = "{since_unix}"
    sent: JsonObject = {
        "amount": "{input.amount}",
        "currency": "{input.currency}",
        "payment_method": "{input.payment_method}",
        "customer": "{input.customer?}",
        # Naming the type keeps methods away that would send the customer to another page first.
        "payment_method_types[]": chosen.payment_method_type,
        "confirm": "true",
        "metadata[description]": "{input.description?}",
        **_METADATA,
    }
    proof: JsonObject = {
        "status": "succeeded",
        "amount": "{input.amount}",
        "currency": "{input.currency}",
        **_OURS,
    }
    listing: JsonObject = {"by": "listing", "lag": "PT10S", "items": "data", "paging": _PAGING}
    return {
        "request": {"url": "/v1/payment_intents", "form": sent, **_WRITE},
        "proof": {
            "external_id": "id",
            "happened_at": "created",
            "equals": proof,
            "keep": ["latest_charge"],
        },
        "answers": _answers(
            {"status": [200], "where": {"status": [*_WORKED_ON]}, "means": "accepted"}
        ),
        "lookup": {**listing, "url": "/v1/payment_intents", "params": params, **facts},
        "census": _census("/v1/payment_intents", params, facts),
        "job": {"url": "/v1/payment_intents/{job_id}", **facts},
    }


def _refund() -> JsonObject:
    facts: JsonObject = {
        "match": _OURS,
        "external_id": "id",
        "happened_at": "created",
        "state": "status",
        "found": ["succeeded"],
        "pending": ["pending", "requires_action"],
        "refused": ["failed", "canceled"],
        "reason": ["failure_reason"],
        "differs": {
            "payment_intent": "{undoes.external_id}",
            "amount": "{input.amount?}",
        },
        "keep": ["status", "amount", "currency", "payment_intent"],
    }
    sent: JsonObject = {
        "payment_intent": "{undoes.external_id}",
        "amount": "{input.amount?}",
        "reason": "{input.reason?}",
        **_METADATA,
    }
    proof: JsonObject = {
        "status": "succeeded",
        "payment_intent": "{undoes.external_id}",
        "amount": "{input.amount?}",
        **_OURS,
    }
    listing: JsonObject = {"by": "listing", "lag": "PT10S", "items": "data", "paging": _PAGING}
    params: JsonObject = {"payment_intent": "{undoes.external_id}", "limit": "100"}
    return {
        "request": {"url": "/v1/refunds", "form": sent, **_WRITE},
        "proof": {
            "external_id": "id",
            "happened_at": "created",
            "equals": proof,
            "keep": ["currency"],
        },
        "answers": _answers(
            {
                "status": [200],
                "where": {"status": ["pending", "requires_action"]},
                "means": "accepted",
            },
            # By us with a lost answer, or by somebody in the dashboard: the listing tells.
            {
                "status": [400],
                "where": {"error.code": "charge_already_refunded"},
                "means": "exists",
            },
        ),
        "lookup": {**listing, "url": "/v1/refunds", "params": params, **facts},
        "census": _census("/v1/refunds", {"limit": "100"}, facts),
        "job": {"url": "/v1/refunds/{job_id}", **facts},
    }


def _census(url: str, params: JsonObject, facts: JsonObject) -> JsonObject:
    """The same listing for everybody's."""
    alike = {name: value for name, value in facts.items() if name != "differs"}
    paging = {**_PAGING, "max_pages": 10_000}
    return {"items": "data", "url": url, "params": params, **alike, "paging": paging}


def _filters_by_time(chosen: StripeOptions) -> bool:
    if chosen.created_filter is not None:
        return chosen.created_filter
    return urlsplit(chosen.api_base).hostname == "api.stripe.com"
