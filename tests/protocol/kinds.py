"""The kinds of the toy outside, one for each class of what an outside can do for us.

Times are those of a loopback provider: a request that was sent takes effect within a second or never.
"""

from __future__ import annotations

from typing import Any

from drill import kind as toy

IN_FLIGHT_MAX_S = 1
# Longer than this process, which the outside lives in, is busy with something else.
TIMEOUT_S = 2
# A permit that does not run out on a busy machine; whatever its worker learns ends it at once.
POLICY = {"lease": 10, "retry_base": 0.1, "ask_first": 0.05, "held_recheck": 1}
# Where a worker dies or freezes with a permit, which has to run out before anybody asks.
MORTAL = {"lease": 1}


def options(url: str, *, lookup: bool, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """How the toy outside is spoken to."""
    return toy.options(url, lookup=lookup, timeout_s=timeout_s)


def kinds_of(url: str, keyed_url: str, policy: dict[str, Any]) -> dict[str, Any]:
    """The kinds section of a deployment file.

    Args:
        url: An outside that knows no keys.
        keyed_url: An outside that honours them.
        policy: What differs from ``POLICY``.
    """
    chosen = {**POLICY, **policy}
    keyed = {"idempotent_for": 3600, "key_margin": 5}

    def kind(options: dict[str, Any], **semantics: Any) -> dict[str, Any]:
        return {
            "adapter": "http",
            "options": options,
            "semantics": {"in_flight_max": IN_FLIGHT_MAX_S, **semantics},
            "policy": chosen,
        }

    asked: dict[str, Any] = options(url, lookup=True)
    silent = options(url, lookup=False)
    throttling = {**asked, "answers": [{"status": [429], "means": "refused_before_work"}]}
    slow = {"max_duration": 20, "in_flight_max": IN_FLIGHT_MAX_S}
    both = options(keyed_url, lookup=True)
    both["answers"] = [
        {"status": [400], "where": {"error.type": "idempotency_error"}, "means": "key_reused"}
    ]
    batched: dict[str, Any] = options(url, lookup=True)
    del batched["request"]["idempotency_header"]
    batched["batch"] = {
        "url": "/batches",
        "body": "items",
        "items": "results",
        "effect_id": "reference",
        "status": "code",
    }
    by_amount: dict[str, Any] = options(url, lookup=True)
    by_amount["lookup"] |= {
        "by": "listing",
        "params": {"amount": "{input.amount}"},
        "match": {"amount": "{input.amount}"},
        "differs": {},
    }
    return {
        "toy.by_amount": kind(by_amount),
        "toy.batched": kind(batched),
        "toy.fact": kind(asked),
        "toy.asked": kind(asked),
        "toy.asked_keyed": kind(both, **keyed),
        "toy.keyed": kind(options(keyed_url, lookup=False), **keyed),
        "toy.neither": kind(silent),
        "toy.throttling": kind(throttling),
        "toy.slow": kind(options(url, lookup=True, timeout_s=3), **slow),
    }
