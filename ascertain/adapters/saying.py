"""The outcomes of adapters that do not speak HTTP: one function for each thing that can be said."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from ascertain.contracts.effect import Evidence, Receipt
from ascertain.contracts.fault import faults
from ascertain.contracts.outcome import NotDone, Refused, Settled, Unknown
from ascertain.contracts.value import StrictValue
from ascertain.errors import InvalidTask

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from pydantic import JsonValue

Model = TypeVar("Model", bound=StrictValue)


def unsent(error_class: str, detail: str, *, retry_after: timedelta | None = None) -> NotDone:
    """Nothing that counts has left us."""
    evidence = Evidence(source="phase", rule="never_left", detail=detail)
    return NotDone(error_class=error_class, evidence=evidence, retry_after=retry_after)


def turned_away(error_class: str, detail: str) -> NotDone:
    """The outside answered that it has not begun; it may be tried again."""
    evidence = Evidence(source="answer", rule="refused_before_work", detail=detail)
    return NotDone(error_class=error_class, evidence=evidence)


def refused(error_class: str, detail: str) -> Refused:
    """The outside answered no, for good."""
    evidence = Evidence(source="answer", rule="refused", detail=detail)
    return Refused(error_class=error_class, evidence=evidence)


def lost(error_class: str, detail: str) -> Unknown:
    """It may have taken effect, and no answer says so."""
    evidence = Evidence(source="phase", rule="left_no_answer", detail=detail)
    return Unknown(error_class=error_class, evidence=evidence)


def doubted(error_class: str, detail: str) -> Unknown:
    """There was an answer, and it does not tell."""
    evidence = Evidence(source="answer", rule=error_class, detail=detail)
    return Unknown(error_class=error_class, evidence=evidence)


def settled(receipt: Receipt, detail: str) -> Settled:
    """It exists; the receipt proves it."""
    evidence = Evidence(source="answer", rule="proof", detail=detail)
    return Settled(receipt=receipt, evidence=evidence)


def checked(model: type[Model], content: Mapping[str, JsonValue]) -> Model:
    """An effect's input as its model.

    Raises:
        InvalidTask: Names each field that is wrong; never repeats what stood in it.
    """
    try:
        return model.model_validate(dict(content))
    except ValidationError as error:
        raise InvalidTask(faults(error, "the input", form=model)) from None
