"""Every form that people write by hand, and what may stand in it by mistake."""

from __future__ import annotations

import math
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from ascertain.contracts.value import StrictValue
from ascertain.kind import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBERS = (7, -1, 0.5, math.inf, True)
TEXTS = ("", "x", "2027-01-31", "2027-01-31T18:00:00", "2027-01-31T99:00:00Z", "P1X")
MISTAKES = (*NUMBERS, *TEXTS, None, [], ["x"], [{}], {}, {"kind": "x"}, {"a b": "c"})


def every_form() -> set[type[StrictValue]]:
    """Those of the deployment file, of tasks, of commands and of every built-in adapter."""
    for adapter in entry_points(group=GROUP):
        import_module(adapter.value.partition(":")[0])
    found: set[type[StrictValue]] = set()
    todo = [StrictValue]
    while todo:
        here = {
            form for form in todo.pop().__subclasses__() if form.__module__.startswith("ascertain")
        }
        todo += here - found
        found |= here
    return found


def wrong_values(form: type[StrictValue]) -> Iterator[object]:
    """Values of which each has one field that may be wrong, or is no value of that form at all."""
    yield from MISTAKES
    for name, field in form.model_fields.items():
        yield from ({field.alias or name: mistake} for mistake in MISTAKES)
