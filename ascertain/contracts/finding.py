"""What a lookup says. That the outside could not be asked is ``errors.LookupDown``, not a finding."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ascertain.contracts.effect import Receipt
from ascertain.contracts.value import JsonObject, Value


class Found(Value):
    """Exactly one fact carries this effect's id, and it is what was asked for."""

    type: Literal["found"] = "found"
    receipt: Receipt


class Refused(Value):
    """The outside says that it failed, with a status that the adapter declares final."""

    type: Literal["refused"] = "refused"
    error_class: str
    detail: str = ""


class Pending(Value):
    """The outside is still working on it."""

    type: Literal["pending"] = "pending"
    job_id: str | None = None
    detail: str = ""


class Absent(Value):
    """A complete answer without it. Conclusive only after the horizon that the semantics give."""

    type: Literal["absent"] = "absent"
    detail: str = ""


class Several(Value):
    """More than one fact fits; a person decides."""

    type: Literal["several"] = "several"
    external_ids: tuple[str, ...]


class Differs(Value):
    """A fact carries this id but is not what was asked for; both values are kept."""

    type: Literal["differs"] = "differs"
    external_id: str
    expected: JsonObject
    found: JsonObject


class Unknowable(Value):
    """The outside answered, but its answer cannot tell (for example it cannot be told apart)."""

    type: Literal["unknowable"] = "unknowable"
    detail: str = ""
    candidates: tuple[str, ...] = ()


Finding = Annotated[
    Found | Refused | Pending | Absent | Several | Differs | Unknowable,
    Field(discriminator="type"),
]
