"""The base of every contract, and the few scalar types that they share."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import pydantic_core
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
)

# JSON objects stay plain dictionaries: they are data of somebody else.
JsonObject = dict[str, JsonValue]

TaskId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$")]
MessageId = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,200}$")]
Partition = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
KindName = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*$", max_length=64)
]
StepName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
EffectId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
# What a person says.
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


_DATE_AND_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}")


def _not_a_number(given: object) -> object:
    # A validator would take any number, or its digits, for seconds or milliseconds since 1970.
    if isinstance(given, datetime) or (isinstance(given, str) and _DATE_AND_TIME.match(given)):
        return given
    raise ValueError("must be a time such as 2027-01-31T18:00:00Z")


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be a time of the years 1 to 9999") from None


# A point in time; two spellings of one are the same.
Moment = Annotated[AwareDatetime, BeforeValidator(_not_a_number), AfterValidator(_in_utc)]


# A length of time that can be taken from any time of ours, and added to it.
Span = Annotated[timedelta, Field(ge=timedelta(0), le=timedelta(days=36_500))]


def _written(text: str) -> str:
    text.encode()  # half a surrogate pair cannot be written; its error is a ValueError
    return text


# An outside's own id of a fact.
ExternalId = Annotated[
    str, StringConstraints(min_length=1, max_length=255), AfterValidator(_written)
]


def bounded(body: JsonObject, limit: int) -> JsonObject:
    """The very same object if it is JSON of at most ``limit`` bytes, else the fields of it that fit.

    What an outside sends may be of any size, and hold text that cannot be written.
    """
    if _size(body) <= limit:
        return body
    kept: JsonObject = {}
    room: float = limit - 2
    for name, value in body.items():
        size = _size({name: value})
        if size <= room:
            kept[name] = value
            room -= size
    return kept


def _size(body: JsonObject) -> float:
    try:
        return len(pydantic_core.to_json(body))
    except pydantic_core.PydanticSerializationError:
        return float("inf")


class Value(BaseModel):
    """An immutable value. Unknown fields are ignored, so that releases can run side by side."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class StrictValue(BaseModel):
    """An immutable value that people write by hand: a misspelt field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
