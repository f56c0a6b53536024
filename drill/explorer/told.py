"""What an actor holds in its hands on the way to the ledger, as values that can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, assert_never

from ascertain.contracts import outcome
from ascertain.contracts.claim import Verdict
from ascertain.contracts.effect import ABSENT_KEYED, Evidence, State
from ascertain.policy import says_of_effect
from drill.explorer.one import one
from drill.explorer.page import Page, fact_number, receipt_for, row_of

if TYPE_CHECKING:
    from ascertain.contracts.outcome import Outcome

JOB: Final = "job"
_ANSWER: Final = Evidence(source="answer", rule="answer")
_KEYED: Final = Evidence(source="answer", rule=ABSENT_KEYED)


class Came(StrEnum):
    """What an attempt can come to."""

    SETTLED = "settled"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    NOT_DONE = "not_done"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """An attempt's outcome.

    Attributes:
        proof: The number of the fact that its receipt names.
        error: Its error class, where a decision reads it.
        keyed: What it leaves behind is absent only as long as the key protects.
    """

    came: Came
    proof: int | None = None
    error: str = ""
    keyed: bool = False

    def outcome(self) -> Outcome:
        """As the ledger takes it."""
        match self.came:
            case Came.SETTLED:
                return outcome.Settled(receipt=receipt_for(self.proof or 0), evidence=_ANSWER)
            case Came.ACCEPTED:
                return outcome.Accepted(job_id=JOB, evidence=_ANSWER)
            case Came.REFUSED:
                return outcome.Refused(error_class="refused", evidence=_ANSWER)
            case Came.NOT_DONE:
                evidence = _KEYED if self.keyed else _ANSWER
                return outcome.NotDone(error_class="not_done", evidence=evidence)
            case Came.UNKNOWN:
                return outcome.Unknown(error_class=self.error or "unknown", evidence=_ANSWER)
            case _:
                assert_never(self.came)


@dataclass(frozen=True, slots=True, eq=False)
class Conclusion:
    """A verdict, without the words that no decision reads."""

    state: State
    rule: str
    proof: int | None = None
    job: bool = False
    error: str | None = None

    def verdict(self) -> Verdict:
        """As the ledger takes it."""
        return Verdict(
            self.state,
            Evidence(source="lookup", rule=self.rule),
            receipt=None if self.proof is None else receipt_for(self.proof),
            error_class=self.error,
            job_id=JOB if self.job else None,
        )


def conclusion_of(verdict: Verdict) -> Conclusion:
    """What of a verdict matters."""
    proof = None if verdict.receipt is None else fact_number(verdict.receipt)
    rule, job = verdict.evidence.rule, verdict.job_id is not None
    return one(Conclusion(verdict.state, rule, proof, job, verdict.error_class))


def result(came: Came, proof: int | None = None, error: str = "", *, keyed: bool = False) -> Result:
    """The one such result."""
    return one(Result(came, proof, error, keyed))


def of_effect(heard: Result, *, rests: str) -> Result:
    """What an attempt's result says of the effect, by the policy's own rule.

    Args:
        heard: The attempt's.
        rests: The rule of its claim, where that rests on the key.
    """
    claimed = row_of(Page(State.IN_FLIGHT, tries=1, lease=1, rule=rests))
    said = says_of_effect(claimed, heard.outcome())
    came, keyed = Came(said.type), said.evidence.rule == ABSENT_KEYED
    return heard if came is heard.came and not keyed else result(came, keyed=keyed)
