"""The same in a test of one's own: the fixture comes with Ascertain."""

# ruff: noqa: D103, INP001 - a test
from __future__ import annotations

from typing import Any

from trial import letters


def test_the_adapter_conforms(conform: Any) -> None:  # noqa: ANN401 - the fixture's
    conform(letters)
