"""The person of a drill: looks into the outside's own books and decides what automation may not."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import Receipt, State
from ascertain.errors import AscertainError
from ascertain.ports import EffectFilter
from ascertain.testing.entry import Draft
from drill.deployment import amount_of
from drill.kind import OutsideClass

if TYPE_CHECKING:
    from ascertain.contracts.effect import EffectRow
    from ascertain.testing.entry import Fact
    from ascertain.testing.outside import Outside
    from drill.deployment import Deployment

NAME: Final = "ada"
_EVERY_S: Final = 1.0
_WAITING: Final = frozenset({State.QUARANTINED, State.TAKEN_OVER})
_TAKEABLE: Final = frozenset({State.UNKNOWN, State.CLEAR, State.ACCEPTED, State.QUARANTINED})
_MOST: Final = 500
_TRIES: Final = 4
_AT_ONCE: Final = 20
_PATIENCE_S: Final = 8.0


class Person:
    """Decides, and sometimes takes over what automation would have done alone."""

    def __init__(self, deployment: Deployment, in_flight_max: timedelta) -> None:
        self._deployment = deployment
        self._in_flight_max = in_flight_max
        self.decided = 0
        self.by_hand = 0

    async def work(self) -> None:
        """Decide whatever waits for a person, for ever."""
        while True:
            with contextlib.suppress(AscertainError):
                await self.decide_all()
            await asyncio.sleep(_EVERY_S)

    async def decide_all(self) -> None:
        """Decide everything that waits now. What is refused is decided in a later round."""
        waiting = EffectFilter(states=_WAITING, limit=_MOST)
        rows = await self._deployment.ledger.effects(waiting)
        # Before that a fact may still come to exist after the look into the books.
        ripe = [row for row in rows if row.now >= row.lease_until + self._in_flight_max]
        for first in range(0, len(ripe), _AT_ONCE):
            await asyncio.gather(
                *(self._try_to_decide(row) for row in ripe[first : first + _AT_ONCE])
            )

    async def _try_to_decide(self, row: EffectRow) -> None:
        """One that is not answered is given again in a later round, with its request id."""
        with contextlib.suppress(AscertainError, TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                self.decided += await self._decide(row)

    async def _decide(self, row: EffectRow) -> bool:
        fact = self._fact(row)
        if fact is None and row.state is State.TAKEN_OVER and row.version % 2:
            fact = self._make(row)
        return await self._give(row, self.decision(row, fact), fact)

    @staticmethod
    def decision(row: EffectRow, fact: Fact | None) -> Action:
        """What a careful person does about an effect, knowing whether its fact exists."""
        if fact is not None:
            return Action.CONFIRM
        if row.state is State.TAKEN_OVER:
            return Action.RELEASE
        can_be_told = not row.kind.startswith(OutsideClass.NEITHER)
        return Action.RETRY if can_be_told or row.error_class == "budget" else Action.DENY

    async def take_one(self, choice: float) -> bool:
        """Take one of the open effects over; False if none let itself be taken."""
        open_ones = EffectFilter(states=_TAKEABLE, limit=_MOST)
        rows = sorted(
            await self._deployment.ledger.effects(open_ones), key=lambda row: row.effect_id
        )
        start = int(choice * len(rows))
        for row in (rows[start:] + rows[:start])[:_TRIES]:
            with contextlib.suppress(AscertainError, TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    if await self._give(row, Action.TAKE, None):
                        return True
        return False

    async def _give(self, row: EffectRow, action: Action, fact: Fact | None) -> bool:
        command = Command(
            action=action,
            operator=NAME,
            reason="the outside's own books say so",
            version=row.version,
            effect_id=row.effect_id,
            receipt=None if fact is None else Receipt(external_id=fact.id),
            override=action
            is Action.TAKE,  # an attempt may be in flight; nothing is done until it is over
            request_id=f"{row.effect_id}-{row.version}-{action}",
        )
        answer = await self._deployment.client.takeover(row.task_id, command)
        return answer.applied

    def _fact(self, row: EffectRow) -> Fact | None:
        facts = self._place(row).books.facts_of(row.effect_id)
        return facts[0] if facts else None

    def _make(self, row: EffectRow) -> Fact:
        """Do by hand what automation may no longer do."""
        self.by_hand += 1
        draft = Draft(
            key=row.effect_id,
            reference=row.effect_id,
            content={"amount": amount_of(row.task_id)},
            received_at=row.now,
        )
        return self._place(row).books.commit(draft)

    def _place(self, row: EffectRow) -> Outside:
        outside, _, _ = row.kind.partition(".")
        return self._deployment.place_of(OutsideClass(outside))
