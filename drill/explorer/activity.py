"""What the real activities do with a page: they are run over ports that note their next write.

So what a reader would write, whether it asks first, and what a person may do is never said a second
time here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from temporalio.testing import ActivityEnvironment

from activities.decide import Decide
from activities.perform import Perform
from activities.reconcile import Reconcile
from activities.serving import Serving
from ascertain.contracts import finding
from ascertain.contracts.claim import Taken, Unresolved
from ascertain.contracts.command import Action, Command
from ascertain.contracts.outage import Outage
from ascertain.contracts.work import Decision, Work
from ascertain.errors import LookupDown
from ascertain.machine import Move
from ascertain.ports import Case, Kind
from drill.explorer.one import one
from drill.explorer.page import ANOTHER, EFFECT, PERSON, VERSION, late_of, receipt_for, row_of
from drill.explorer.told import JOB, Conclusion, conclusion_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta

    from ascertain.contracts.claim import ClaimAnswer, ClaimRequest, Verdict, Written
    from ascertain.contracts.effect import AuditEvent, Effect, Evidence
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.semantics import Semantics
    from ascertain.ports import Call
    from drill.explorer.page import Page
    from drill.explorer.setting import Setting

ASKER: Final = "asker"
DOWN: Final = "down"
ABSENT: Final = "absent"
PENDING: Final = "pending"
FAILED: Final = "failed"
SEVERAL: Final = "several"
FOUND: Final = ("found 0", "found 1")
FINDINGS: Final = (*FOUND, ABSENT, PENDING, FAILED, SEVERAL, DOWN)


@dataclass(frozen=True, slots=True, eq=False)
class Fence:
    """End the open claim."""


@dataclass(frozen=True, slots=True, eq=False)
class Resend:
    """Claim in order to send the same bytes under the same key."""


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """A person's move, after every check.

    Attributes:
        denial: What an amendment says first, where it is not known yet that there is nothing.
    """

    move: Move
    conclusion: Conclusion
    denial: Conclusion | None = None


Plan = Fence | Resend | Conclusion


class _NotedError(Exception):
    """The activity is about to make this write."""

    def __init__(self, what: Plan | Decided) -> None:
        super().__init__(what)
        self.what = what


class _NotingLedger:
    """Shows one case, and notes the first write instead of making it.

    A claim is answered: the caller's own claim is unresolved. With ``taken``, the first conclusion that
    a fact exists is answered: it proves another effect.
    """

    def __init__(self, case: Case, *, taken: bool) -> None:
        self._case = case
        self._taken = taken

    async def inspect(self, _effect_id: str) -> Case:
        return self._case

    async def audit(self, _effect_id: str) -> tuple[AuditEvent, ...]:
        return ()  # nobody has said anything of it

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        if request.resend:
            raise _NotedError(one(Resend()))
        return Unresolved(self._case.row.model_copy(update={"lease_owner": request.owner}))

    async def fence(self, _effect_id: str, _version: int, _by: str) -> None:
        raise _NotedError(one(Fence()))

    async def converge(self, _effect_id: str, _version: int, verdict: Verdict, _by: str) -> Written:
        if self._taken and verdict.receipt is not None:
            return Taken(verdict.receipt.external_id, ANOTHER, ANOTHER, self._case.row)
        raise _NotedError(conclusion_of(verdict))

    async def decide(
        self, _effect_id: str, _version: int, move: Move, verdict: Verdict, _operator: str
    ) -> None:
        raise _NotedError(one(Decided(move, conclusion_of(verdict))))

    async def amend(
        self,
        _effect_id: str,
        _version: int,
        denial: Verdict | None,
        verdict: Verdict,
        _operator: str,
    ) -> None:
        denied = None if denial is None else conclusion_of(denial)
        raise _NotedError(one(Decided(Move.SUPERSEDE, conclusion_of(verdict), denied)))

    async def note_outage(self, partition: str, kind: str, reason: str) -> Outage:
        now = self._case.row.now
        return Outage(partition=partition, kind=kind, since=now, reason=reason, waiting=1)

    async def end_outage(self, _partition: str, _kind: str) -> None:
        """Nothing of it is in any case."""

    async def note(self, _effect_id: str, _by: str, _evidence: Evidence) -> None:
        """Moves nothing."""


class _Answering:
    """An adapter whose lookup gives one finding, and remembers that it was asked."""

    def __init__(self, semantics: Semantics, found: str) -> None:
        self.semantics = semantics
        self.asked = False
        self._found = found

    def prepare(self, _effect: Effect) -> bytes:
        return b"bytes"

    async def lookup(self, _call: Call, *, within: timedelta) -> Finding:
        del within
        self.asked = True
        return finding_of(self._found)


def finding_of(found: str) -> Finding:
    """The finding of that name.

    Raises:
        LookupDown: For ``down``.
    """
    if found in FOUND:
        return finding.Found(receipt=receipt_for(FOUND.index(found)))
    match found:
        case "absent":
            return finding.Absent()
        case "pending":
            return finding.Pending(job_id=JOB)
        case "failed":
            return finding.Refused(error_class="failed")
        case "several":
            return finding.Several(external_ids=("fact-0", "fact-1"))
        case _:
            raise LookupDown("the lookup is down")


def decision_of(action: Action, *, override: bool, fact: int | None) -> Decision:
    """A person's command; an amendment comes with what he saw, which was nothing."""
    amended = EFFECT.model_copy(update={"effect_id": "amended", "revision": 1, "input": {"new": 1}})
    command = Command(
        action=action,
        operator=PERSON,
        reason="so be it",
        version=VERSION,
        override=override,
        receipt=None if fact is None else receipt_for(fact),
        input=amended.input if action is Action.AMEND else None,
        evidence={"seen": "nothing"} if action is Action.AMEND else {},
    )
    return Decision(effect=EFFECT, command=command, amended=amended)


class Activities:
    """The real ``reconcile`` and ``decide``, asked once for each page and each finding."""

    def __init__(self, setting: Setting, seen: Callable[[Case, str], Case]) -> None:
        self._setting = setting
        self._seen = seen
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.reads = cache(self._reads)
        self.finds = cache(self._finds)
        self.finds_taken = cache(self._finds_taken)
        self.was_unused = cache(self._was_unused)
        self.commands = cache(self._commands)

    def close(self) -> None:
        """Give the event loop back."""
        self._runner.close()

    def _reads(self, page: Page) -> tuple[bool, Plan | None]:
        """Whether a reader of this page asks outside, and what it writes if the lookup is down."""
        return self._reconcile(page, DOWN)

    def _finds(self, page: Page, found: str) -> Plan | None:
        """What a reader of this page writes if the outside says this."""
        return self._reconcile(page, found)[1]

    def _finds_taken(self, page: Page, found: str) -> Plan | None:
        """What it writes next if the fact turns out to prove another effect."""
        return self._reconcile(page, found, taken=True)[1]

    def _was_unused(self, page: Page) -> Conclusion | None:
        """What a call writes that asks for its claim again and learns that its own is unresolved."""
        serving, _ = self._serving(page, DOWN, ASKER)
        noted = self._noted(Perform(serving).perform, Work(effect=EFFECT))
        return noted if isinstance(noted, Conclusion) else None

    def _reconcile(
        self, page: Page, found: str, *, taken: bool = False
    ) -> tuple[bool, Plan | None]:
        serving, adapter = self._serving(page, found, ASKER, taken=taken)
        noted = self._noted(Reconcile(serving).reconcile, Work(effect=EFFECT))
        if isinstance(noted, Decided):
            raise TypeError("reconcile made a person's move")
        return adapter.asked, noted

    def _commands(
        self, page: Page, found: str, action: Action, *, override: bool, fact: int | None
    ) -> Decided | None:
        """What a person's command writes if the outside says this; None: it is refused."""
        serving, _ = self._serving(page, found, PERSON)
        decision = decision_of(action, override=override, fact=fact)
        noted = self._noted(Decide(serving).decide, decision)
        if not isinstance(noted, Decided | None):
            raise TypeError("decide made a move that is no person's")
        return noted

    def _serving(
        self, page: Page, found: str, reader: str, *, taken: bool = False
    ) -> tuple[Serving, _Answering]:
        setting = self._setting
        adapter: Any = _Answering(setting.semantics, found)
        case = self._seen(Case(row_of(page), late_of(page)), reader)
        ledger: Any = _NotingLedger(case, taken=taken)
        kind = Kind(EFFECT.kind, setting.semantics, setting.policy, adapter)
        return Serving(ledger, {kind.name: kind}, reader), adapter

    def _noted(
        self, activity: Callable[[Any], Awaitable[object]], argument: object
    ) -> Plan | Decided | None:
        async def run() -> None:
            await ActivityEnvironment().run(activity, argument)

        try:
            self._runner.run(run())
        except _NotedError as noted:
            return noted.what
        return None
