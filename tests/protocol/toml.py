"""Writes the small part of TOML that deployment files need."""

from __future__ import annotations

import json
from typing import Any


def toml(value: dict[str, Any]) -> str:
    """A TOML document: keys of the root, with everything below as inline tables."""
    return "".join(f"{json.dumps(key)} = {_value(inner)}\n" for key, inner in value.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        pairs = ", ".join(f"{json.dumps(key)} = {_value(inner)}" for key, inner in value.items())
        return "{" + pairs + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(inner) for inner in value) + "]"
    return json.dumps(value)
