"""The function of the computation example."""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

from ascertain.errors import InvalidTask

PRICE = 1999


def quote(given: dict[str, int]) -> dict[str, int]:
    """What so many items cost, in cents."""
    if given["items"] < 1:
        raise InvalidTask("items must be at least 1")
    return {"total": given["items"] * PRICE}
