"""Cases of tasks, made by the ledger's own moves on its pure twin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ascertain import policy
from ascertain.cli import story
from ascertain.cli.known import Known, KnownEffect, Run
from ascertain.contracts.claim import Granted, Verdict
from ascertain.contracts.effect import EffectRow, Evidence, Receipt, State
from ascertain.contracts.finding import Found
from ascertain.contracts.outcome import NotDone, Unknown
from ascertain.contracts.semantics import LookupBy
from ascertain.contracts.status import OpenEffect, TaskStatus
from ascertain.contracts.task import StepResult, TaskOutcome, TaskResult
from ascertain.ledger.model import ModelLedger
from ascertain.machine import Move
from tests.core.rows import kind
from tests.ledger.steps import request

START = datetime(2026, 3, 4, 2, 59, 58, tzinfo=UTC)
TASK = "task-1"
EFFECT = "ef1-1"


class Night:
    """One effect of one task, moved on second by second."""

    def __init__(self, lookup: LookupBy | None = LookupBy.REFERENCE, **semantics: Any) -> None:
        self.now = START
        self.kind = kind(lookup, **semantics)
        self.ledger = ModelLedger(lambda: self.now)

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    async def attempt(self, outcome: Any = None, *, by: str = "host-1:77", **changes: Any) -> None:
        """A granted claim and, unless its worker dies, what it came to a second later."""
        answer = await self.ledger.claim(request(owner=f"{by}/c0ffee", **changes))
        assert isinstance(answer, Granted), answer
        self.later(1)
        if outcome is not None:
            await self.ledger.record(answer.lease, outcome, retry_in=timedelta(seconds=2))

    async def finding(self, found: Any) -> None:
        """The outside is asked and the rules judge what it says."""
        row = await self.row()
        verdict = policy.judge(row, found, self.kind)
        assert not isinstance(verdict, policy.StillOpen), verdict
        await self.ledger.converge(EFFECT, row.version, verdict, "host-2:88")

    async def row(self) -> EffectRow:
        case = await self.ledger.inspect(EFFECT)
        assert case is not None
        return case.row

    async def known(
        self,
        run: str | None = "RUNNING",
        *,
        doing: str | None = None,
        why: str = "",
        looked: EffectRow | None = None,
        gaps: tuple[str, ...] = (),
        result: Any = None,
    ) -> Known:
        """What is known now; with ``doing``, a worker answers that the effect is open.

        ``why`` is what its last look came to, which it took when the row was as ``looked``.
        """
        row = await self.row()
        trail = tuple(await self.ledger.audit(EFFECT))
        return Known(
            TASK,
            self.now,
            run=self.run(run) if run is not None else None,
            status=None if doing is None else self.status(looked or row, doing, why),
            result=result,
            effects=(KnownEffect(row, trail),),
            gaps=gaps,
        )

    def run(self, state: str) -> Run:
        closed = None if state == "RUNNING" else self.now
        return Run("run-1", state, "invoice", "p", START, closed)

    def status(self, row: EffectRow, doing: str, why: str = "") -> TaskStatus:
        standing = policy.standing_of(row, self.kind, why)
        opened = OpenEffect(
            step=row.step,
            effect_id=row.effect_id,
            kind=row.kind,
            doing=doing,
            reason=standing.reason,
            since=row.state_since,
            standing=None if doing == "held" else standing,
        )
        return TaskStatus(
            task_id=TASK, kind="invoice", partition="p", state=row.state.value, open=opened
        )


def lost(detail: str = "no answer within 2 s") -> Unknown:
    told = Evidence(source="rule", rule="answer_lost", detail=detail)
    return Unknown(error_class="answer_lost", evidence=told)


def never_left() -> NotDone:
    told = Evidence(source="phase", rule="never_left", detail="the name does not resolve")
    return NotDone(error_class="never_left", evidence=told)


def found(external_id: str = "fact-9") -> Found:
    return Found(receipt=Receipt(external_id=external_id))


def person(said: str, by: str = "ada", rule: str = "said", **body: object) -> Evidence:
    return Evidence(source="person", rule=rule, detail=f"{by}: {said}", body=body)


async def decide(night: Night, move: Move, state: State, why: str, **changes: object) -> None:
    before = await night.row()
    verdict = Verdict(state, person(why, **changes.pop("body", {})), **changes)
    await night.ledger.decide(EFFECT, before.version, move, verdict, "ada")


def text(known: Known) -> str:
    """Its whole story, as it is printed."""
    return "\n".join(story.tell(known).lines())


def done(external_id: str = "fact-9") -> TaskResult:
    step = StepResult(
        step="charge",
        effect_id=EFFECT,
        state=State.SETTLED,
        receipt=Receipt(external_id=external_id),
    )
    return TaskResult(task_id=TASK, outcome=TaskOutcome.DONE, steps=(step,))


async def quarantine(night: Night) -> None:
    """What the rules make of a doubt about an outside that cannot be asked."""
    row = await night.row()
    given = policy.next_question(row, night.kind)
    assert isinstance(given, policy.Give)
    await night.ledger.converge(EFFECT, row.version, given.verdict, "host-2:88")
