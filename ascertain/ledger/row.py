"""A record of the database as a contract's value.

The ledger's own CHECKs hold what pydantic would check again, so rows are built without validation;
only their JSON is parsed into its types.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from ascertain.contracts.effect import AuditEvent, EffectRow, Evidence, Receipt, State
from ascertain.contracts.gate import Gate, PartitionStanding
from ascertain.ledger.decision import FOREVER

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg

_FIELDS: Final = tuple(EffectRow.model_fields)
_STATES: Final = {state.value: state for state in State}
_EVENTS: Final = TypeAdapter(list[AuditEvent])


def effect_row(record: asyncpg.Record) -> EffectRow:
    """The row, from a record that holds all columns of ``effects`` and the clock as ``now``."""
    values = {name: record[name] for name in _FIELDS}
    values["state"] = _STATES[values["state"]]
    values["evidence"] = Evidence.model_validate_json(values["evidence"])
    if values["receipt"] is not None:
        values["receipt"] = Receipt.model_validate_json(values["receipt"])
    values["resend_until"] = _bounded(values["resend_until"])
    return EffectRow.model_construct(**values)


def audit_event(record: asyncpg.Record) -> AuditEvent:
    """One line of the trail."""
    values = dict(record)
    values["evidence"] = Evidence.model_validate_json(values["evidence"])
    if values["receipt"] is not None:
        values["receipt"] = Receipt.model_validate_json(values["receipt"])
    return AuditEvent.model_validate(values)


def audit_events(text: str | None) -> tuple[AuditEvent, ...]:
    """The events of an aggregated JSON array; none where there is no array."""
    return tuple(_EVENTS.validate_json(text)) if text is not None else ()


def gate(record: asyncpg.Record) -> Gate:
    """A gate as it stands."""
    return Gate.model_validate(dict(record))


def _bounded(until: datetime | None) -> datetime | None:
    """``infinity``, which comes as the last time that Python knows, in no time zone."""
    return FOREVER if until is not None and until.tzinfo is None else until


def closed_gate(record: asyncpg.Record) -> Gate:
    """The gate that a claim met."""
    return Gate(
        partition=record["gate_partition"],
        paused=True,
        since=record["gate_since"],
        by=record["gate_by"],
        reason=record["gate_reason"],
    )


def partition(record: asyncpg.Record) -> PartitionStanding:
    """A partition with its gate, if that was ever closed, and its open effects."""
    values = dict(record)
    gate_of = {name: values.pop(name) for name in ("paused", "since", "by", "reason")}
    if gate_of["paused"] is not None:
        values["gate"] = Gate(partition=values["partition"], **gate_of)
    values["states"] = json.loads(values["states"])
    return PartitionStanding.model_validate(values)
