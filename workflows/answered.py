"""What requests were answered, by their ids: a repeat gets its first answer, and is applied once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from ascertain.contracts.replay import Said, Say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

AnswerT = TypeVar("AnswerT")
WordT = TypeVar("WordT", bound=Say)

# Repeats come within minutes; what is kept travels from history to history.
ANSWERS_KEPT = 20


class Answers(Generic[AnswerT]):
    """The last answers; ``kept`` is what a new history is given over."""

    def __init__(self, kept: Mapping[str, AnswerT] | None = None) -> None:
        self.kept = dict(kept or {})

    def before(self, request: str | None) -> AnswerT | None:
        """What this very request was answered when it came first; None: it is new, or has no id."""
        return self.kept.get(request or "")

    def keep(self, request: str, answer: AnswerT) -> None:
        """Remember an answer, and forget those that are older than the last ones."""
        self.kept[request] = answer
        self.kept = dict([*self.kept.items()][-ANSWERS_KEPT:])


def hear(answers: Answers[Said], what: str, word: WordT, apply: Callable[[WordT], Said]) -> Said:
    """Apply a person's word, once: what was applied gets its first answer when it comes again.

    Args:
        answers: What was answered.
        what: The word and what it is about, ``pause`` or ``approve snapshot``: under the same id another one
            is no repeat. Empty: whatever it is.
        word: Who says it and why.
        apply: Does it.
    """
    request = " ".join(filter(None, (what, word.request_id))) if word.request_id else None
    before = answers.before(request)
    if before is not None:
        return before
    answer = apply(word)
    if answer.applied and request:
        answers.keep(request, answer)
    return answer
