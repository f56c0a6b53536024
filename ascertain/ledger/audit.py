"""The audit trail's chain: every event carries a hash over itself and the one before.

The hash is made by the database when the event is appended, over the text that PostgreSQL gives a
``jsonb`` array of the event's fields; ``event_text`` builds the same text from the event as read.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC
from decimal import Decimal
from typing import TYPE_CHECKING, assert_never

from ascertain.errors import BrokenChain

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from pydantic import JsonValue

    from ascertain.contracts.effect import AuditEvent, EffectRow, Evidence, Receipt


def verify_chain(events: Iterable[AuditEvent], row: EffectRow | None = None) -> None:
    """Check one effect's whole trail, oldest event first.

    Verify with a release at least as new as the one that wrote: a field that this release does not
    know is missing from the event as read.

    Args:
        events: The trail, as ``Ledger.audit`` gives it.
        row: The effect as it stands. Only with it can a missing end be noticed, and a row that was
            changed without an event.

    Raises:
        BrokenChain: At the first event that does not fit.
    """
    previous = ""
    seq = 0
    version = 0
    whose = row.effect_id if row is not None else None
    for event in events:
        seq += 1
        whose = whose or event.effect_id
        if event.effect_id != whose or event.seq != seq:
            why = f"event {event.seq} of {event.effect_id} stands there"
            raise BrokenChain(whose, seq, why)
        if chained(previous, event) != event.hash:
            raise BrokenChain(
                whose, seq, "its hash does not fit what it says and what stood before"
            )
        previous = event.hash
        version = event.version
    if row is not None and row.version != version:
        why = f"the effect stands at version {row.version}, the trail ends at version {version}"
        raise BrokenChain(row.effect_id, seq + 1, why)


def chained(previous: str, event: AuditEvent) -> str:
    """The hash, hexadecimal, that an event has after ``previous`` (empty for the first)."""
    return hashlib.sha256(bytes.fromhex(previous) + event_text(event).encode()).hexdigest()


def event_text(event: AuditEvent) -> str:
    """What is hashed of an event: a ``jsonb`` array's text, with the time in UTC to the microsecond."""
    return jsonb_text(
        [
            event.effect_id,
            event.seq,
            event.move,
            event.actor,
            event.from_state,
            event.to_state,
            event.version,
            event.lease_version,
            event.attempt,
            _stored(event.evidence),
            _stored(event.receipt),
            _instant(event.at),
        ]
    )


def same(one: Evidence | Receipt | None, other: Evidence | Receipt | None) -> bool:
    """Whether the ledger keeps the same text of both."""
    return jsonb_text(_stored(one)) == jsonb_text(_stored(other))


def _stored(value: Evidence | Receipt | None) -> JsonValue:
    return None if value is None else value.model_dump(mode="json", exclude_defaults=True)


def jsonb_text(value: JsonValue) -> str:
    """The text that PostgreSQL gives a ``jsonb`` value: keys by length, then by bytes; exact numbers."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(str(value), ensure_ascii=False)
        case int():
            return str(value)
        case float():
            return format(Decimal(repr(value or abs(value))), "f")
        case list():
            return "[" + ", ".join(map(jsonb_text, value)) + "]"
        case dict():
            keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
            return "{" + ", ".join(f"{jsonb_text(k)}: {jsonb_text(value[k])}" for k in keys) + "}"
        case _:
            assert_never(value)


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
