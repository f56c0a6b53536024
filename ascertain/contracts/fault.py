"""What is wrong with a value, in words for people instead of a validator's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MOST: Final = 3
LONGEST_NAME: Final = 64

_LENGTH: Final = "must be a length of time: a number of seconds, or ISO 8601 such as PT5S"

# By the validator's type of error; a type that is not here is told in the validator's own words.
WORDS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "missing": lambda _: "is missing",
    "extra_forbidden": lambda _: "there is no such field",
    "string_type": lambda _: "must be text",
    "string_too_short": lambda ctx: _at_least(ctx["min_length"], "character"),
    "string_too_long": lambda ctx: f"must have at most {ctx['max_length']} characters",
    "string_pattern_mismatch": lambda ctx: f"must have the form {ctx['pattern']}",
    "int_type": lambda _: "must be a whole number",
    "int_parsing": lambda _: "must be a whole number",
    "int_from_float": lambda _: "must be a whole number",
    "float_type": lambda _: "must be a number",
    "float_parsing": lambda _: "must be a number",
    "bool_type": lambda _: "must be true or false",
    "bool_parsing": lambda _: "must be true or false",
    "dict_type": lambda _: "must be an object",
    "model_type": lambda _: "must be an object",
    "model_attributes_type": lambda _: "must be an object",
    "tuple_type": lambda _: "must be a list",
    "list_type": lambda _: "must be a list",
    "too_short": lambda ctx: _at_least(ctx["min_length"], "entry"),
    "too_long": lambda ctx: f"must have at most {ctx['max_length']} entries",
    "greater_than": lambda ctx: f"must be more than {ctx['gt']}",
    "greater_than_equal": lambda ctx: f"must be at least {ctx['ge']}",
    "less_than": lambda ctx: f"must be less than {ctx['lt']}",
    "less_than_equal": lambda ctx: f"must be at most {ctx['le']}",
    "enum": lambda ctx: f"must be one of {ctx['expected']}",
    "literal_error": lambda ctx: f"must be one of {ctx['expected']}",
    "time_delta_type": lambda _: _LENGTH,
    "time_delta_parsing": lambda _: _LENGTH,
    "value_error": lambda ctx: str(ctx["error"]),
}


def faults(error: ValidationError, whole: str = "value", most: int = MOST) -> str:
    """The first faults, each with its field; never what was given, which may hold anything.

    Args:
        error: What the validator found.
        whole: What the whole value is called.
        most: How many are told; of the others only the number.
    """
    found = _causes(error.errors(include_input=False, include_url=False))
    told = [f"{_place(fault['loc']) or whole}: {_words(fault)}" for fault in found[:most]]
    more = f" (and {len(found) - most} more)" if len(found) > most else ""
    return "; ".join(told) + more


def _causes(found: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without lists that are called too short only because an entry of theirs is wrong."""
    inside = {each["loc"][:end] for each in found for end in range(len(each["loc"]))}
    return [each for each in found if each["type"] != "too_short" or each["loc"] not in inside]


def _place(parts: tuple[str | int, ...]) -> str:
    """Where a fault is, in one line. What stands inside of an input, names too, is the sender's own."""
    inside = parts.index("input") + 1 if "input" in parts else len(parts)
    return ".".join(ascii(str(part))[1:-1][:LONGEST_NAME] for part in parts[:inside])


def _words(fault: ErrorDetails) -> str:
    words = WORDS.get(fault["type"])
    return fault["msg"] if words is None else words(fault.get("ctx", {}))


def _at_least(count: int, what: str) -> str:
    if count == 1:
        return "must not be empty"
    return f"must have at least {count} {what}s".replace("entrys", "entries")
