"""Each value exists once, so that two are equal exactly if they are the same object.

Worlds are compared and hashed millions of times; made of such values, that costs a few pointers.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Single = TypeVar("Single", bound="DataclassInstance")
Twin = TypeVar("Twin")

_KEPT: dict[tuple[Any, ...], Any] = {}
_CROWDS: dict[tuple[Any, ...], tuple[Any, ...]] = {}
_ARRIVED: dict[Any, int] = {}


def one(made: Single) -> Single:
    """The one value that has these fields. Its class is a frozen dataclass with ``eq=False``."""
    key = (type(made), *(getattr(made, field.name) for field in fields(made)))
    kept: Single = _KEPT.setdefault(key, made)
    return kept


def changed(value: Single, **changes: object) -> Single:
    """The one value that differs in these fields."""
    return one(replace(value, **changes))


def crowd(*members: Twin) -> tuple[Twin, ...]:
    """The one tuple of these members, whichever order they come in: equals stand side by side."""
    found = _CROWDS.get(members)
    if found is None:
        ordered = tuple(sorted(members, key=lambda each: _ARRIVED.setdefault(each, len(_ARRIVED))))
        found = _CROWDS[members] = _CROWDS.setdefault(ordered, ordered)
    return found


def in_place(*members: Twin) -> tuple[Twin, ...]:
    """These members in the order they come in, for telling who is who."""
    return members
