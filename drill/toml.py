"""Writes the small part of TOML that deployment files need."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue


def toml(value: Mapping[str, JsonValue]) -> str:
    """A TOML document: keys of the root, with everything below as inline tables."""
    return "".join(f"{json.dumps(key)} = {_value(inner)}\n" for key, inner in value.items())


def _value(value: JsonValue) -> str:
    match value:
        case dict():
            pairs = ", ".join(
                f"{json.dumps(key)} = {_value(inner)}" for key, inner in value.items()
            )
            return "{" + pairs + "}"
        case list():
            return "[" + ", ".join(_value(inner) for inner in value) + "]"
        case _:
            return json.dumps(value)
