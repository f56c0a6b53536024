"""Rows of the ledger as tests need them: one ordinary row, changed where the test says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ascertain.contracts.effect import EffectRow, Evidence, State
from ascertain.contracts.semantics import LookupBy, Policy, Semantics
from ascertain.ports import Kind

T0 = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def second(count: float) -> timedelta:
    return timedelta(seconds=count)


def row(state: State = State.UNKNOWN, **changes: Any) -> EffectRow:
    fields: dict[str, Any] = {
        "effect_id": "ef1-a",
        "task_id": "task-1",
        "step": "charge",
        "kind": "toy.fact",
        "partition": "p",
        "state": state,
        "state_since": T0,
        "version": 2,
        "attempt": 1,
        "lease_owner": "w/1",
        "lease_version": 1,
        "lease_until": T0,
        "first_sent_at": T0,
        "fingerprint": "f" * 64,
        "frozen": b"{}",
        "evidence": Evidence(source="rule", rule="test", detail="as the test says"),
        "created_at": T0,
        "now": T0,
    }
    return EffectRow(**{**fields, **changes})


def kind(
    lookup: LookupBy | None = LookupBy.REFERENCE, policy: Policy | None = None, **semantics: Any
) -> Kind:
    declared = {"in_flight_max": second(10), "lag": second(0), **semantics}
    return Kind("toy.fact", Semantics(lookup=lookup, **declared), policy or Policy(), None)
