"""What is wrong with a value, in words for people instead of a validator's."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MOST: Final = 3
LONGEST_NAME: Final = 64

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_UNKNOWN: Final = "extra_forbidden"
# What the validator adds to the place of a key that is wrong.
_OF_KEY: Final = "[key]"

# As a validator writes the member of an enumeration: <State.UNKNOWN: 'UNKNOWN'>.
_MEMBER: Final = re.compile(r"<\w+\.\w+: ('[^']*')>")
_QUOTE: Final = "'"
_TIME: Final = "must be a time with its zone, such as 2027-01-31T18:00:00Z"
_LENGTH: Final = "must be a length of time: a number of seconds, or ISO 8601 such as PT5S"

# By the validator's type of error; a type that is not here is told in the validator's own words.
WORDS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "missing": lambda _: "is missing",
    _UNKNOWN: lambda _: "there is no such field",
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
    "literal_error": lambda ctx: "must be one of " + _MEMBER.sub(r"\1", ctx["expected"]),
    "finite_number": lambda _: "must be a finite number",
    "path_type": lambda _: "must be the path of a file",
    "union_tag_not_found": lambda ctx: f"must say its {ctx['discriminator'].strip(_QUOTE)}",
    "union_tag_invalid": lambda ctx: (
        f"must have as {ctx['discriminator'].strip(_QUOTE)} one of {ctx['expected_tags']}"
    ),
    "datetime_type": lambda _: _TIME,
    "datetime_parsing": lambda _: _TIME,
    "datetime_from_date_parsing": lambda _: _TIME,
    "datetime_object_invalid": lambda _: _TIME,
    "timezone_aware": lambda _: _TIME,
    "time_delta_type": lambda _: _LENGTH,
    "time_delta_parsing": lambda _: _LENGTH,
    "value_error": lambda ctx: str(ctx["error"]),
}


def faults(
    error: ValidationError,
    whole: str = "value",
    *,
    form: type[BaseModel] | None = None,
    at: str = "",
) -> str:
    """The first faults, each with its field; never what was given, which may hold anything.

    Args:
        error: What the validator found.
        whole: What the whole value is called.
        form: What was to be made of it, so that a field that is not there can be told with those that are.
        at: Where the whole value stands in what a person wrote, before each field.
    """
    found = _causes(error.errors(include_input=False, include_url=False))
    told = [
        f"{_place(fault['loc'], at) or whole}: {_words(fault)}{_instead(fault, form)}"
        for fault in found[:MOST]
    ]
    more = f" (and {len(found) - MOST} more)" if len(found) > MOST else ""
    return "; ".join(told) + more


def near(name: str, known: Collection[str]) -> str:
    """Which of the known names was probably meant, to be put behind an unknown one; or nothing."""
    meant = get_close_matches(name, known, 1)
    return f" (did you mean {meant[0]}?)" if meant else ""


def _causes(found: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without lists that are called too short only because an entry of theirs is wrong."""
    inside = {each["loc"][:end] for each in found for end in range(len(each["loc"]))}
    return [each for each in found if each["type"] != "too_short" or each["loc"] not in inside]


def _place(parts: tuple[str | int, ...], at: str) -> str:
    """Where a fault is, in one line. What stands inside of an input, names too, is the sender's own."""
    inside = parts.index("input") + 1 if "input" in parts else len(parts)
    names = [_quoted(str(part)) for part in parts[:inside] if part != _OF_KEY]
    return ".".join([at, *names] if at else names)


def _quoted(name: str) -> str:
    """As TOML writes a key, for a name may hold the point that separates names."""
    text = ascii(name)[1:-1][:LONGEST_NAME]
    return text if _BARE.fullmatch(text) else f'"{text}"'


def _words(fault: ErrorDetails) -> str:
    words = WORDS.get(fault["type"])
    return fault["msg"] if words is None else words(fault.get("ctx", {}))


def _instead(fault: ErrorDetails, form: type[BaseModel] | None) -> str:
    """Which field was meant where there is no such one, or else which there are."""
    if form is None or fault["type"] != _UNKNOWN:
        return ""
    known = _fields(form, fault["loc"][:-1])
    return near(str(fault["loc"][-1]), known) or f" (there are: {', '.join(known)})"


def _fields(form: type[BaseModel], place: tuple[str | int, ...]) -> list[str]:
    """The names of the fields at a place inside a value of this form."""
    forms: list[object] = [form]
    for part in place:
        forms = [inner for each in forms for inner in _inside(each, part)]
    models = [each for each in forms if isinstance(each, type) and issubclass(each, BaseModel)]
    return sorted(
        {field.alias or name for each in models for name, field in each.model_fields.items()}
    )


def _inside(form: object, part: str | int) -> list[object]:
    """What a field, a key or an entry may be."""
    if isinstance(form, type) and issubclass(form, BaseModel):
        named = (f for name, f in form.model_fields.items() if part in {name, f.alias})
        field = next(named, None)
        return [] if field is None else _choices(field.annotation)
    arguments = get_args(form)
    if not arguments:
        return []
    return _choices(arguments[1] if get_origin(form) is dict else arguments[0])


def _choices(annotation: object) -> list[object]:
    """The types that an annotation leaves the choice of."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _choices(arguments[0])
    if origin in {Union, UnionType}:
        return [each for argument in arguments for each in _choices(argument)]
    return [annotation]


def _at_least(count: int, what: str) -> str:
    if count == 1:
        return "must not be empty"
    return f"must have at least {count} {what}s".replace("entrys", "entries")
