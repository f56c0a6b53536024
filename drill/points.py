"""Every place where the drill can strike, named once, and the ports that wear them.

Nothing in the product knows of these points: a drill's worker dresses its ledger and its adapters from
outside, so an ordinary worker pays nothing for them.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pydantic import Field

from ascertain.contracts.value import StrictValue

if TYPE_CHECKING:
    from datetime import timedelta

    from pydantic import JsonValue

    from activities.serving import Serving
    from ascertain.contracts.claim import ClaimAnswer, ClaimRequest, Lease, Verdict, Written
    from ascertain.contracts.effect import Effect, Evidence
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.contracts.semantics import Semantics
    from ascertain.machine import Move
    from ascertain.ports import Adapter, Call, Ledger, Permit

VARIABLE = "ASCERTAIN_DRILL"


class Point(StrEnum):
    """Between which two lines of the protocol the fault strikes, in the order of an attempt."""

    BEFORE_CLAIM = "before_claim"
    AFTER_CLAIM = "after_claim"
    BEFORE_SEND = "before_send"
    AFTER_ANSWER = "after_answer"
    AFTER_RECORD = "after_record"
    BEFORE_LOOKUP = "before_lookup"
    AFTER_LOOKUP = "after_lookup"
    AFTER_CONVERGE = "after_converge"
    AFTER_DECIDE = "after_decide"


class Strike(StrEnum):
    """What happens to the process there."""

    KILL = "kill"
    EXIT = "exit"
    FREEZE = "freeze"


class Plan(StrictValue):
    """One fault.

    Attributes:
        match: Strikes only effects whose task_id (around a claim: task_id/step) contains this.
        together: Strikes once so many effects stand at the place; those that come earlier wait there.
        times: How often, over all processes that share ``tally``; None: every time.
        tally: A folder where each strike leaves one file, so that a restarted worker knows.
    """

    point: Point
    strike: Strike = Strike.KILL
    match: str = ""
    together: int = Field(default=1, ge=1)
    times: int | None = Field(default=1, ge=1)
    tally: Path


class Striker:
    """Strikes the process it runs in, as planned."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._gathered = asyncio.Event()
        self._here: set[str] = set()

    async def reached(self, point: Point, task_id: str) -> None:
        """Strike if this is the planned place and effect, strikes are left, and all are here."""
        if not self._meant(point, task_id):
            return
        self._here.add(task_id)
        if len(self._here) < self._plan.together:
            await self._gathered.wait()
            return
        self._strike()
        self._gathered.set()  # a process that was frozen goes on with all of them

    def passed(self, point: Point, task_id: str) -> None:
        """The same where nothing can wait: the first one strikes."""
        if self._meant(point, task_id):
            self._strike()

    def _meant(self, point: Point, task_id: str) -> bool:
        return point is self._plan.point and self._plan.match in task_id

    def _strike(self) -> None:
        if not self._counted():
            return
        match self._plan.strike:
            case Strike.KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            case Strike.EXIT:
                os._exit(70)
            case Strike.FREEZE:
                os.kill(os.getpid(), signal.SIGSTOP)

    def _counted(self) -> bool:
        """Take one strike from the tally; creating a file is atomic between processes."""
        limit = self._plan.times
        number = 0
        while limit is None or number < limit:
            number += 1
            try:
                (self._plan.tally / f"strike-{number}-{self._plan.point}").touch(exist_ok=False)
            except FileExistsError:
                continue
            return True
        return False


class PointedLedger:
    """A ledger with the drill's points around its writes."""

    def __init__(self, inner: Ledger, striker: Striker) -> None:
        self._inner = inner
        self._striker = striker
        self._tasks: dict[str, str] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        """Claim, with a point on either side."""
        self._tasks[request.effect.effect_id] = request.effect.task_id
        place = f"{request.effect.task_id}/{request.effect.step}"
        await self._striker.reached(Point.BEFORE_CLAIM, place)
        answer = await self._inner.claim(request)
        await self._striker.reached(Point.AFTER_CLAIM, place)
        return answer

    async def record(
        self, lease: Lease, outcome: Outcome, *, retry_in: timedelta | None = None
    ) -> Written:
        """Record, with a point on either side."""
        task_id = self._tasks.get(lease.effect_id, "")
        await self._striker.reached(Point.AFTER_ANSWER, task_id)
        written = await self._inner.record(lease, outcome, retry_in=retry_in)
        await self._striker.reached(Point.AFTER_RECORD, task_id)
        return written

    async def converge(self, effect_id: str, version: int, verdict: Verdict, by: str) -> Written:
        """Converge, with a point behind it."""
        written = await self._inner.converge(effect_id, version, verdict, by)
        await self._striker.reached(Point.AFTER_CONVERGE, self._tasks.get(effect_id, ""))
        return written

    async def decide(
        self, effect_id: str, version: int, move: Move, verdict: Verdict, operator: str
    ) -> Written:
        """Decide, with a point behind it."""
        written = await self._inner.decide(effect_id, version, move, verdict, operator)
        await self._striker.reached(Point.AFTER_DECIDE, self._tasks.get(effect_id, ""))
        return written

    async def note(self, effect_id: str, by: str, evidence: Evidence) -> None:
        """Note, with a point behind what a person said."""
        await self._inner.note(effect_id, by, evidence)
        if evidence.source == "person":
            await self._striker.reached(Point.AFTER_DECIDE, self._tasks.get(effect_id, ""))


class PointedPermit:
    """A permit with a point between its check and the wire."""

    def __init__(self, inner: Permit, striker: Striker, task_id: str) -> None:
        self._inner = inner
        self._striker = striker
        self._task_id = task_id

    def check(self) -> None:
        """Use the permit up; strike right behind it."""
        self._inner.check()
        self._striker.passed(Point.BEFORE_SEND, self._task_id)

    async def renew(self) -> None:
        """Renew it."""
        await self._inner.renew()

    def heartbeat(self, progress: JsonValue) -> None:
        """Pass the heartbeat on."""
        self._inner.heartbeat(progress)


class PointedAdapter:
    """An adapter with the drill's points around its calls."""

    def __init__(self, inner: Adapter, striker: Striker) -> None:
        self._inner = inner
        self._striker = striker

    @property
    def semantics(self) -> Semantics:
        """What the adapter declares."""
        return self._inner.semantics

    def prepare(self, effect: Effect) -> bytes:
        """Prepare as the adapter does."""
        return self._inner.prepare(effect)

    async def perform(self, call: Call, permit: Permit) -> Outcome:
        """Perform under a permit that may strike."""
        pointed = PointedPermit(permit, self._striker, call.effect.task_id)
        return await self._inner.perform(call, pointed)

    async def lookup(self, call: Call, *, within: timedelta) -> Finding:
        """Look up, with a point on either side."""
        await self._striker.reached(Point.BEFORE_LOOKUP, call.effect.task_id)
        found = await self._inner.lookup(call, within=within)
        await self._striker.reached(Point.AFTER_LOOKUP, call.effect.task_id)
        return found

    async def aclose(self) -> None:
        """Close the adapter."""
        await self._inner.aclose()


def dress(serving: Serving) -> Serving:
    """The same serving with the points of the plan in the environment; as it is if there is none."""
    written = os.environ.get(VARIABLE)
    if not written:
        return serving
    striker = Striker(Plan.model_validate_json(written))
    kinds = {
        name: replace(kind, adapter=_pointed(kind.adapter, striker))
        for name, kind in serving.kinds.items()
    }
    ledger = cast("Ledger", PointedLedger(serving.ledger, striker))
    return replace(serving, ledger=ledger, kinds=kinds)


def _pointed(adapter: Adapter | None, striker: Striker) -> Adapter | None:
    return None if adapter is None else PointedAdapter(adapter, striker)
