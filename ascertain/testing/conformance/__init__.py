"""The conformance kit, for authors of adapters: see docs/how-to/adapter.md."""

from __future__ import annotations

from ascertain.testing.conformance.kit import conform
from ascertain.testing.conformance.report import Report
from ascertain.testing.conformance.trial import Trial

__all__ = ["Report", "Trial", "conform"]
