"""How a secret is named in the options of a kind, wherever it stands in a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

NAMED: Final = re.compile(r"secret:([A-Za-z0-9_]+)")


def named_in(options: JsonValue) -> frozenset[str]:
    """The names of all secrets in a kind's options, ``Bearer secret:NAME`` among them."""
    return frozenset(_each(options))


def _each(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield from NAMED.findall(value)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _each(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _each(inner)
