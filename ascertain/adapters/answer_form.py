"""Answers as a deployment file reads them: what proves, what is accepted, what a status means."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, JsonValue, model_validator

from ascertain.adapters.judgement import Meaning
from ascertain.adapters.place import Place
from ascertain.adapters.template import Form
from ascertain.contracts.value import StrictValue

_SUCCESS: Final = 2

Status = Annotated[int, Field(ge=100, le=599)]


class ProofForm(StrictValue):
    """What in a 2xx answer proves the effect, and what the receipt keeps of it.

    Attributes:
        require: Must be there and not null.
        equals: Must be equal to this.
        external_id: The outside's own id of the fact.
        happened_at: ISO 8601, or seconds or milliseconds since 1970.
        keep: Small values for the receipt.
        statuses: Only these prove; default: any 2xx but 202.
    """

    external_id: Place
    require: tuple[Place, ...] = ()
    equals: dict[Place, Form] = Field(default_factory=dict[Place, Form])
    happened_at: Place | None = None
    keep: tuple[Place, ...] = ()
    statuses: tuple[Annotated[int, Field(ge=200, le=299)], ...] = ()

    @model_validator(mode="after")
    def _proves(self) -> ProofForm:
        if not self.require and not self.equals:
            raise ValueError("name what in the answer shows the effect: require or equals")
        return self


class AcceptedForm(StrictValue):
    """Where an answer that means ``accepted`` has the id of the work."""

    job_id: Place


class AnswerRule(StrictValue):
    """What particular answers mean; the first rule that fits stands before the table of statuses.

    Attributes:
        where: Each place holds this value, or one of these values.
    """

    status: tuple[Status, ...]
    where: dict[Place, JsonValue] = Field(default_factory=dict[Place, JsonValue])
    means: Meaning

    @model_validator(mode="after")
    def _says_enough(self) -> AnswerRule:
        success = [status // 100 == _SUCCESS for status in self.status]
        if self.means is Meaning.PROOF and not all(success):
            raise ValueError("only a 2xx answer can be a proof")
        denies = self.means in {Meaning.REFUSED, Meaning.REFUSED_BEFORE_WORK}
        if any(success) and denies and not self.where:
            raise ValueError(
                f"a 2xx status alone does not mean {self.means}: say where in the answer"
            )
        return self
