"""Ask the outside for its own lists, to their end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeVar

import httpx
from pydantic import Field, ValidationError

from ascertain.contracts.value import Value
from ascertain.errors import LookupDown
from starter.demo.compare import Books, Fact, What

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAGE: Final = 100
_WITHIN: Final = timedelta(seconds=20)
_SUCCEEDED: Final = "succeeded"
_FAILED: Final = "failed"


class _Listed(Value):
    id: str


class _Intent(_Listed):
    metadata: dict[str, str] = Field(default_factory=dict)


class _Charge(_Listed):
    payment_intent: str | None
    status: str
    amount: int
    currency: str


class _Refund(_Charge):
    metadata: dict[str, str] = Field(default_factory=dict)


_Item = TypeVar("_Item", bound=_Listed)


async def read_books(url: str, api_key: str) -> Books:
    """Every charge and every refund that the outside has.

    Args:
        url: Of a server that speaks Stripe's API.
        api_key: Its key.

    Raises:
        LookupDown: It did not answer for the whole of its lists.
    """
    timeout = httpx.Timeout(_WITHIN.total_seconds())
    try:
        async with httpx.AsyncClient(base_url=url, auth=(api_key, ""), timeout=timeout) as http:
            intents = await _listing(http, "payment_intents", _Intent)
            charges = await _listing(http, "charges", _Charge)
            refunds = await _listing(http, "refunds", _Refund)
    except (httpx.HTTPError, KeyError, TypeError, ValueError, ValidationError) as error:
        raise LookupDown(f"the outside at {url} did not list what it has: {error!r}") from error
    # A charge carries nothing of ours; the payment that it belongs to does.
    named = {intent.id: intent.metadata.get("effect_id") for intent in intents}
    failed = [charge for charge in charges if charge.status == _FAILED]
    return Books(
        facts=(
            *(_charged(charge, named) for charge in charges if charge.status == _SUCCEEDED),
            *(_refunded(refund) for refund in refunds if refund.status == _SUCCEEDED),
        ),
        declined=frozenset(
            effect for charge in failed if (effect := named.get(charge.payment_intent or ""))
        ),
    )


async def _listing(http: httpx.AsyncClient, name: str, form: type[_Item]) -> list[_Item]:
    """All pages of one list.

    Raises:
        ValueError: The list began anew, as some servers do for a page that they do not know.
    """
    found: dict[str, _Item] = {}
    after: Mapping[str, str] = {}
    while True:
        answer = await http.get(f"/v1/{name}", params={"limit": _PAGE, **after})
        page = answer.raise_for_status().json()
        for entry in page["data"]:
            item = form.model_validate(entry)
            if item.id in found:
                raise ValueError(f"{item.id} stands twice in the list of {name}")
            found[item.id] = item
        if not page["has_more"]:
            return list(found.values())
        after = {"starting_after": page["data"][-1]["id"]}


def _charged(charge: _Charge, named: Mapping[str, str | None]) -> Fact:
    return Fact(
        external_id=charge.payment_intent or charge.id,
        what=What.CHARGE,
        effect_id=named.get(charge.payment_intent or ""),
        amount=charge.amount,
        currency=charge.currency,
    )


def _refunded(refund: _Refund) -> Fact:
    return Fact(
        external_id=refund.id,
        what=What.REFUND,
        effect_id=refund.metadata.get("effect_id"),
        amount=refund.amount,
        currency=refund.currency,
        of=refund.payment_intent,
    )
