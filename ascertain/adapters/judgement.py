"""What an answer proves: from one exchange to one outcome.

The table says what a status means where nothing else is declared. It errs to the side of doubt: a doubt
costs a question, a wrong "not done" costs a second fact, and a wrong "refused" loses one that exists.
"""

from __future__ import annotations

import re
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, assert_never

from ascertain.adapters.sending import Phase
from ascertain.contracts.effect import Evidence
from ascertain.contracts.outcome import Accepted, NotDone, Outcome, Refused, Settled, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pydantic import JsonValue

    from ascertain.adapters.throttle import Throttle
    from ascertain.adapters.wire import Exchange
    from ascertain.contracts.effect import Receipt


class Meaning(StrEnum):
    """What an answer can mean.

    ``PROOF`` settled, if the adapter's proof is in it · ``ACCEPTED`` taken and worked on · ``REFUSED`` no
    for good, nothing happened · ``REFUSED_BEFORE_WORK`` not now, nothing happened · ``UNKNOWN`` · and three
    more kinds of unknown: ``IN_PROGRESS`` an earlier attempt of ours is still open · ``EXISTS`` something
    is there already: look it up and compare · ``KEY_REUSED`` another request stands under our key.
    """

    PROOF = "proof"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    REFUSED_BEFORE_WORK = "refused_before_work"
    UNKNOWN = "unknown"
    IN_PROGRESS = "in_progress"
    EXISTS = "exists"
    KEY_REUSED = "key_reused"


_CLASSES: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        1: Meaning.UNKNOWN,
        2: Meaning.PROOF,
        # A redirect says where to look on, not whether anything was done; after a POST, 303 even hints
        # that it was. It is not followed.
        3: Meaning.UNKNOWN,
        4: Meaning.REFUSED,
        5: Meaning.UNKNOWN,
    }
)
_SINGLE: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        202: Meaning.ACCEPTED,
        # Our credentials, not the effect, are wrong: mending them lets the same effect through.
        401: Meaning.REFUSED_BEFORE_WORK,
        407: Meaning.REFUSED_BEFORE_WORK,
        408: Meaning.UNKNOWN,
        # Both are said of the thing, not of the request: it may be ours.
        409: Meaning.EXISTS,
        412: Meaning.EXISTS,
        422: Meaning.EXISTS,
        425: Meaning.UNKNOWN,
        # Some count a request and then throttle its answer: not done only where that is declared.
        429: Meaning.UNKNOWN,
        499: Meaning.UNKNOWN,
    }
)
_GATEWAY: Final = frozenset({408, 499, 502, 503, 504})
_REASON_LENGTH: Final = 200


class Reading(Protocol):
    """How an adapter reads its outside's answers."""

    def meaning(self, exchange: Exchange) -> Meaning:
        """What this answer means."""
        ...

    def proof(self, exchange: Exchange) -> Receipt | None:
        """The receipt, if what the adapter names as proof is in the answer."""
        ...

    def job_id(self, exchange: Exchange) -> str:
        """What the outside calls the work that it accepted."""
        ...

    def reason(self, exchange: Exchange) -> str:
        """The outside's own short reason, without secrets; empty if it gives none."""
        ...


def meaning_of(status: int) -> Meaning:
    """What a status means where the adapter declares nothing else. Total."""
    return _SINGLE.get(status) or _CLASSES.get(status // 100, Meaning.UNKNOWN)


def judge(
    exchange: Exchange, reading: Reading, throttle: Throttle, *, who: str, now: datetime
) -> Outcome:
    """What one attempt came to.

    Args:
        exchange: What the wire says of it.
        reading: How to read an answer of this outside.
        throttle: Limits of a wait that the outside asks for.
        who: Spreads such waits; the effect and its attempt.
        now: For a wait that is given as a date.

    Raises:
        PermitLost: Whatever the permit raised right before the first byte; nothing was sent.
    """
    if exchange.refusal is not None:
        raise exchange.refusal
    match exchange.phase:
        case Phase.NEVER_LEFT:
            seen = Evidence(source="phase", rule="never_left", detail=exchange.detail)
            return NotDone(error_class=exchange.error_class, evidence=seen)
        case Phase.LEFT:
            seen = Evidence(source="phase", rule="left_no_answer", detail=exchange.detail)
            return Unknown(error_class=exchange.error_class, evidence=seen)
        case Phase.ANSWERED:
            return _answered(exchange, reading, throttle, who, now)
        case _:
            assert_never(exchange.phase)


def _answered(
    exchange: Exchange, reading: Reading, throttle: Throttle, who: str, now: datetime
) -> Outcome:
    meaning, status = reading.meaning(exchange), exchange.status or 0
    reason = reading.reason(exchange)[:_REASON_LENGTH]
    retry_after = exchange.headers.get("retry-after")
    match meaning:
        case Meaning.PROOF:
            receipt = reading.proof(exchange)
            if receipt is None:
                return _doubt("success_without_proof", _unproven(exchange), exchange, reason)
            seen = _seen("proof", f"proved by the answer (HTTP {status})", exchange, reason)
            return Settled(receipt=receipt, evidence=seen)
        case Meaning.ACCEPTED:
            ask_in = None if retry_after is None else throttle.wait(retry_after, now=now, who=who)
            seen = _seen("accepted", f"accepted, still running (HTTP {status})", exchange, reason)
            return Accepted(job_id=reading.job_id(exchange), evidence=seen, ask_in=ask_in)
        case Meaning.REFUSED:
            seen = _seen("refused", _with(f"refused (HTTP {status})", reason), exchange, reason)
            return Refused(error_class=_slug(reason) or f"http_{status}", evidence=seen)
        case Meaning.REFUSED_BEFORE_WORK:
            wait = throttle.wait(retry_after, now=now, who=who)
            seen = _seen("refused_before_work", _later(exchange, reason), exchange, reason)
            name = "throttled" if status in {429, 503} else f"http_{status}"
            return NotDone(error_class=name, evidence=seen, retry_after=wait)
        case Meaning.UNKNOWN:
            return _doubt(f"http_{status}", _with(_unknown(status), reason), exchange, reason)
        case Meaning.IN_PROGRESS:
            why = f"our own earlier attempt is still open (HTTP {status})"
            return _doubt("in_progress", why, exchange, reason)
        case Meaning.EXISTS:
            why = f"the outside says that it is there already (HTTP {status}): look up and compare"
            return _doubt("exists", _with(why, reason), exchange, reason)
        case Meaning.KEY_REUSED:
            why = f"provider holds a different request under this key (HTTP {status})"
            return _doubt("key_reused", _with(why, reason), exchange, reason)
        case _:
            assert_never(meaning)


def _unknown(status: int) -> str:
    if status in _GATEWAY:
        return f"gateway gave up; the work may still be running (HTTP {status})"
    if status // 100 == 3:  # noqa: PLR2004 - the class of redirects
        return f"redirected and not followed; it may or may not have been done (HTTP {status})"
    return f"it may or may not have been done (HTTP {status})"


def _unproven(exchange: Exchange) -> str:
    cut = f"; reply shortened to {len(exchange.body)} bytes" if exchange.truncated else ""
    return f"success status without proof (HTTP {exchange.status}{cut})"


def _later(exchange: Exchange, reason: str) -> str:
    if exchange.status not in {429, 503}:
        return _with(f"refused before any work (HTTP {exchange.status})", reason)
    asked = exchange.headers.get("retry-after")
    wish = "" if asked is None else f", Retry-After {asked[:40]!r}"
    return _with(f"slowed by provider (HTTP {exchange.status}{wish})", reason)


def _with(sentence: str, reason: str) -> str:
    return f"{sentence}: {reason}" if reason else sentence


def _doubt(name: str, why: str, exchange: Exchange, reason: str) -> Unknown:
    return Unknown(error_class=name, evidence=_seen(name, why, exchange, reason))


def _seen(rule: str, detail: str, exchange: Exchange, reason: str) -> Evidence:
    body: dict[str, JsonValue] = {"status": exchange.status, "sha256": exchange.sha256}
    if reason:
        body["reason"] = reason
    if exchange.truncated:
        body["truncated"] = True
    return Evidence(source="answer", rule=rule, detail=detail, body=body)


def _slug(reason: str) -> str:
    """A reason that is a word already is an error class; a sentence is not."""
    return reason if re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", reason) else ""
