"""Places in an answer: ``data.0.id`` in its JSON, or ``header:Location``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pydantic_core.core_schema import no_info_plain_validator_function

if TYPE_CHECKING:
    from pydantic import JsonValue
    from pydantic_core import CoreSchema

    from ascertain.adapters.wire import Exchange

_HEADER: Final = "header:"
# A plain number of seconds beyond this is milliseconds: it would be in the year 5138.
_LARGEST_SECONDS: Final = 100_000_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands.

    Attributes:
        text: As written.
        header: The header's name, where it stands in a header.
        steps: Field names and list positions from the outside in, where it stands in JSON.
    """

    text: str
    header: str | None
    steps: tuple[str, ...]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """In a model, it is read as it is written in a deployment file."""
        return no_info_plain_validator_function(parse)

    def within(self, value: JsonValue) -> JsonValue:
        """What stands there in a JSON value; None if nothing does."""
        if self.header is not None:
            return None
        for step in self.steps:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            else:
                return None
        return value

    def of(self, exchange: Exchange) -> JsonValue:
        """What stands there in an answer; None if nothing does."""
        if self.header is not None:
            value: str | None = exchange.headers.get(self.header)
            return value
        return self.within(exchange.json())


def parse(text: object) -> Place:
    """Read a place as it is written in a deployment file."""
    if isinstance(text, Place):
        return text
    if not isinstance(text, str) or not text.strip():
        raise ValueError("a place is written like 'data.0.id' or 'header:Location'")
    if text.startswith(_HEADER):
        return Place(text, text.removeprefix(_HEADER), ())
    steps = tuple(text.split("."))
    if not all(steps):
        raise ValueError(f"{text!r} has an empty step; a place is written like 'data.0.id'")
    return Place(text, None, steps)


def same(left: JsonValue, right: JsonValue) -> bool:
    """Equality of JSON values, in which ``true`` is not ``1`` and ``1.0`` is ``1``."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def id_in(value: JsonValue) -> str | None:
    """A value as an external id: text or an integer, 1 to 255 characters."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value).strip()
    return text if 1 <= len(text) <= 255 else None  # noqa: PLR2004 - the contract's limit


def time_in(value: JsonValue) -> datetime | None:
    """A value as a time: ISO 8601, or seconds or milliseconds since 1970; None if it is none."""
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) > _LARGEST_SECONDS else value
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None
