"""What requests were answered, by their ids: a repeat gets its first answer, and is applied once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

AnswerT = TypeVar("AnswerT")

# Repeats come within minutes; what is kept travels from history to history.
ANSWERS_KEPT = 20


def with_answer(
    answered: Mapping[str, AnswerT], request: str, answer: AnswerT
) -> dict[str, AnswerT]:
    """The answers that are kept from now on: this one, and the last ones before it."""
    return dict([*{**answered, request: answer}.items()][-ANSWERS_KEPT:])
