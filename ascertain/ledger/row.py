"""A record of the database as a contract's value.

The ledger's own CHECKs hold what pydantic would check again, so rows are built without validation;
only their JSON is parsed into its types.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from ascertain.contracts.effect import AuditEvent, EffectRow, Evidence, Receipt, State
from ascertain.contracts.gate import Gate, PartitionStanding
from ascertain.ledger import gate as gates
from ascertain.ledger.decision import FOREVER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import asyncpg

    from ascertain.contracts.claim import Paused

_FIELDS: Final = tuple(EffectRow.model_fields)
_MET: Final = ("partition", "paused", "since", "by", "reason", "probing", "ramp_until")
_GATE: Final = (
    "paused",
    "since",
    "by",
    "reason",
    "rule",
    "probes",
    "probe_after",
    "probe_from",
    "probing",
    "ramp_until",
)
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


def as_restored(row: EffectRow, raised_at: datetime | None) -> EffectRow:
    """The row as it has to be read after a restore.

    What was sent unknown to the ledger may have been sent until the epoch was raised, so no empty lookup
    proves anything sooner than if the permit had ended then.
    """
    if raised_at is None or raised_at <= row.lease_until:
        return row
    return row.model_copy(update={"lease_until": raised_at})


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


def gate(record: asyncpg.Record | Mapping[str, Any]) -> Gate:
    """A gate as it stands; when it is to be probed is of no use where no rule keeps it closed."""
    values = dict(record)
    if values["rule"] is None:
        values |= {"probes": 0, "probe_after": None, "probe_from": None}
    if values["paused"]:  # by a release that knew no ramp
        values["ramp_until"] = None
    return Gate.model_validate(values)


def _bounded(until: datetime | None) -> datetime | None:
    """``infinity``, which comes as the last time that Python knows, in no time zone."""
    return FOREVER if until is not None and until.tzinfo is None else until


def paused(record: asyncpg.Record, effect_id: str) -> Paused:
    """The answer of the gate that a claim met."""
    told = json.loads(record["gate"])
    met = Gate.model_validate({name: told[name] for name in _MET})
    return gates.paused(met, effect_id, record["now"])


def partition(record: asyncpg.Record) -> PartitionStanding:
    """A partition with its gate, if that was ever closed, and its open effects."""
    values = dict(record)
    gate_of = {name: values.pop(name) for name in _GATE}
    if gate_of["paused"] is not None:
        values["gate"] = gate({"partition": values["partition"], **gate_of})
    values["states"] = json.loads(values["states"])
    return PartitionStanding.model_validate(values)
