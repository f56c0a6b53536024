"""What the core asks of the world: adapters, a ledger, and whoever starts tasks."""

from __future__ import annotations

from ascertain.ports.adapter import (
    FROZEN_MAX_BYTES,
    Adapter,
    AdapterFactory,
    BatchAdapter,
    Call,
    Kind,
    Listed,
    Lister,
    Permit,
    Secrets,
)
from ascertain.ports.ledger import Case, EffectFilter, Ledger, Page, Trail
from ascertain.ports.start import Deliveries, Tasks
from ascertain.ports.upkeep import (
    ArchivedPage,
    KeptCensus,
    Measured,
    Spread,
    Standing,
    Tally,
    Upkeep,
    Waiting,
)

__all__ = [
    "FROZEN_MAX_BYTES",
    "Adapter",
    "AdapterFactory",
    "ArchivedPage",
    "BatchAdapter",
    "Call",
    "Case",
    "Deliveries",
    "EffectFilter",
    "KeptCensus",
    "Kind",
    "Ledger",
    "Listed",
    "Lister",
    "Measured",
    "Page",
    "Permit",
    "Secrets",
    "Spread",
    "Standing",
    "Tally",
    "Tasks",
    "Trail",
    "Upkeep",
    "Waiting",
]
