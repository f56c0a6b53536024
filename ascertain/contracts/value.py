"""The base of every contract, and the few scalar types that they share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, JsonValue, StringConstraints

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


class Value(BaseModel):
    """An immutable value. Unknown fields are ignored, so that releases can run side by side."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class StrictValue(BaseModel):
    """An immutable value that people write by hand: a misspelt field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
