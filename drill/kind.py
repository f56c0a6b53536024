"""The kinds of effect that are drilled: each class of outside, inline and queued.

What the toy outside can do for us decides the class. Times are those of a loopback provider: a request that
was sent takes effect within ``in_flight_max`` or never.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ascertain.contracts.value import JsonObject


class OutsideClass(StrEnum):
    """What an outside can do for whoever lost its answer."""

    ASKED_AND_KEYED = "asked-keyed"
    ASKED = "asked"
    KEYED = "keyed"
    NEITHER = "neither"

    @property
    def asked(self) -> bool:
        """Whether it can be asked if an effect exists."""
        return self in {OutsideClass.ASKED_AND_KEYED, OutsideClass.ASKED}

    @property
    def keyed(self) -> bool:
        """Whether it honours the effect_id as idempotency key."""
        return self in {OutsideClass.ASKED_AND_KEYED, OutsideClass.KEYED}


class Route(StrEnum):
    """How the work gets to a worker."""

    INLINE = "inline"
    QUEUED = "queued"


KEY_LIFE_S: Final = 7200


def name_of(outside: OutsideClass, route: Route) -> str:
    """The kind's name."""
    return f"{outside}.{route}"


def options(url: str, *, lookup: bool, timeout_s: float = 1) -> dict[str, JsonValue]:
    """Options of the ``http`` adapter for the toy outside.

    Args:
        url: Where it is.
        lookup: Whether to ask it by reference; otherwise it cannot be asked.
        timeout_s: How long an answer is waited for.
    """
    chosen: dict[str, JsonValue] = {
        "base_url": url,
        "timeout": timeout_s,
        "request": {
            "method": "POST",
            "url": "/facts",
            "idempotency_header": "Idempotency-Key",
            "json": {"reference": "{effect_id}", "amount": "{input.amount}"},
        },
        "proof": {"external_id": "id", "equals": {"reference": "{effect_id}"}},
    }
    if lookup:
        chosen["lookup"] = {
            "by": "reference",
            "lag": 0,
            "url": "/facts",
            "params": {"reference": "{effect_id}"},
            "items": "data",
            "paging": {"param": "cursor", "next": "cursor"},
            "match": {"reference": "{effect_id}"},
            "external_id": "id",
            "differs": {"amount": "{input.amount}"},
        }
        chosen["census"] = {
            "url": "/facts",
            "items": "data",
            "paging": {"param": "cursor", "next": "cursor"},
            "match": {"reference": "{effect_id}"},
            "external_id": "id",
            "state": "status",
            "found": ["succeeded"],
        }
    return chosen


def kinds(
    url: str,
    keyed_url: str,
    queue: str,
    *,
    in_flight_max_s: float,
    timeout_s: float,
    policy: JsonObject,
) -> dict[str, JsonObject]:
    """The kinds section of a deployment file: every class by either route.

    Args:
        url: An outside that knows no keys.
        keyed_url: One that honours them.
        queue: The task queue of queued work.
        in_flight_max_s: How long a sent request can still take effect.
        timeout_s: How long an answer is waited for.
        policy: As in the deployment file.
    """
    made: dict[str, JsonObject] = {}
    for outside in OutsideClass:
        semantics: JsonObject = {"in_flight_max": in_flight_max_s}
        if outside.keyed:
            semantics |= {"idempotent_for": KEY_LIFE_S, "key_margin": max(5, in_flight_max_s)}
        place = keyed_url if outside.keyed else url
        for route in Route:
            queued = route is Route.QUEUED
            made[name_of(outside, route)] = {
                "adapter": "http",
                "options": options(place, lookup=outside.asked, timeout_s=timeout_s),
                "semantics": semantics,
                "policy": {**policy, "queue": queue} if queued else policy,
            }
    return made
