"""The one call outside that every side makes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import httpx

from ascertain.adapters.sending import Phase
from benchmarks.answering import PATH

if TYPE_CHECKING:
    from ascertain.adapters.wire import Wire

_WITHIN: Final = timedelta(seconds=5)
_CREATED: Final = 201


class CallFailed(RuntimeError):
    """The outside did not do what it does at once; the run is worth nothing."""


async def call(wire: Wire, url: str, reference: str) -> str:
    """Create a fact and give the outside's id of it.

    Raises:
        CallFailed: It was not created.
    """
    request = httpx.Request(
        "POST",
        url + PATH,
        headers={"Idempotency-Key": reference},
        json={"amount": 1, "reference": reference},
    )
    exchange = await wire.exchange(request, within=_WITHIN)
    answer = exchange.json()
    if (
        exchange.phase is not Phase.ANSWERED
        or exchange.status != _CREATED
        or not isinstance(answer, dict)
        or answer["reference"] != reference
    ):
        raise CallFailed(f"{reference}: {exchange.status} {exchange.detail}")
    return str(answer["id"])
