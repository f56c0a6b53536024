"""The faults of a plan, done: each planned effect meets its fault once, whichever worker serves it."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from ascertain.errors import SetupError
from ascertain.testing.fault import DropReply, OnReply, Pass
from starter.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ascertain.testing.fault import Fault, ReplyFault
    from starter.demo.application import Application
    from starter.demo.compare import Due
    from starter.demo.plan import FaultPlan
    from starter.demo.seat import Seat

_OVERTAKEN_WITHIN: Final = timedelta(seconds=60)


class Strikes:
    """Holds a plan against every request of two workers.

    The kill and the freeze strike where it hurts most: the outside has done the work and answered in
    full, and the worker does not know it yet.

    Attributes:
        succeeded: Set once the killed worker has a successor.
        killed_at: The task at which a worker was killed.
        faults: A sentence for each strike whose consequence was not the right one.
    """

    def __init__(
        self,
        plan: FaultPlan,
        seats: Sequence[Seat],
        application: Application,
        *,
        aftermath: asyncio.TaskGroup,
        tell: Callable[[str], None],
    ) -> None:
        """Lay the plan on the seats' proxies.

        Args:
            plan: What strikes what.
            seats: Two; the first one is killed and the other one frozen.
            application: Knows when a frozen worker's effect was finished by somebody else.
            aftermath: Where a successor is started and the frozen worker is thawed.
            tell: Is told what happens, in words.
        """
        self._plan = plan
        self._seats = seats
        self._application = application
        self._aftermath = aftermath
        self._tell = tell
        self._left: dict[str, Fault] = dict(plan.faults)
        self._killed: Seat | None = None
        self._frozen: Seat | None = None
        self.succeeded = asyncio.Event()
        self.killed_at: str | None = None
        self.faults: list[str] = []
        for seat in seats:
            self._lay(seat)

    @property
    def done(self) -> Mapping[str, int]:
        """How many faults were done, by kind."""
        planned = Counter(fault.kind for fault in self._plan.faults.values())
        done = planned - Counter(fault.kind for fault in self._left.values())
        done["kill"] = int(self._killed is not None)
        done["freeze"] = int(self._frozen is not None)
        return done

    @property
    def missed(self) -> list[str]:
        """A sentence for everything that was planned and not done: a run without it proves less."""
        words = [
            f"the {fault.kind} of {effect} was not done" for effect, fault in self._left.items()
        ]
        if self._killed is None:
            words.append("no worker was killed")
        if self._frozen is None:
            words.append("no worker was frozen")
        return words

    def _lay(self, seat: Seat) -> None:
        for effect, fault in self._plan.faults.items():
            seat.proxy.inject(fault, match=partial(self._meets, effect))
        seat.proxy.inject(OnReply(partial(self._kill, seat)), match=partial(self._kills, seat))
        seat.proxy.inject(OnReply(partial(self._freeze, seat)), match=partial(self._freezes, seat))

    def _meets(self, effect: str, request: bytes) -> bool:
        return effect_of(request) == effect and self._left.pop(effect, None) is not None

    def _kills(self, seat: Seat, request: bytes) -> bool:
        meant = seat is self._seats[0]
        fits = self._killed is None and _strikes(request, self._plan.kill, meant=meant)
        if fits:
            self._killed = seat
        return fits

    def _freezes(self, seat: Seat, request: bytes) -> bool:
        if self._frozen is not None or not self.succeeded.is_set():
            return False
        fits = _strikes(request, self._plan.freeze, meant=seat is not self._killed)
        if fits:
            self._frozen = seat
        return fits

    async def _kill(self, seat: Seat, request: bytes) -> ReplyFault:
        await seat.kill()
        due = _due(request, self._plan.kill)
        self.killed_at = due.task_id
        self._tell(f"worker {seat.name} killed (SIGKILL): {_at(due)}")
        self._aftermath.create_task(self._succeed(seat))
        return DropReply("reset")

    async def _succeed(self, seat: Seat) -> None:
        await seat.fill()
        self._tell(f"worker {seat.name} has a successor")
        self.succeeded.set()

    async def _freeze(self, seat: Seat, request: bytes) -> ReplyFault:
        await seat.freeze()
        due = _due(request, self._plan.freeze)
        self._tell(f"worker {seat.name} frozen (SIGSTOP): {_at(due)}")
        self._aftermath.create_task(self._thaw(seat, due))
        return Pass()

    async def _thaw(self, seat: Seat, due: Due) -> None:
        """Thaw the worker once somebody else has finished its effect, and see what it then does."""

        async def overtaken() -> bool:
            return await self._application.overtaken(due.effect_id)

        try:
            await until(overtaken, _OVERTAKEN_WITHIN, f"nobody else finished {due}")
            self._tell(f"{due.task_id} was finished by the other worker")
            seat.thaw()
            came_to = await self._application.thawed(due.effect_id)
            self._tell(f"worker {seat.name} thawed: {came_to}")
        except SetupError as error:
            self.faults.append(str(error))
        finally:
            seat.thaw()


def effect_of(request: bytes) -> str | None:
    """The effect that a request is about to cause; None for one that causes none."""
    if not request.startswith(b"POST "):
        return None
    _, _, body = request.partition(b"\r\n\r\n")
    named = parse_qs(body.decode("utf-8", errors="replace")).get("metadata[effect_id]")
    return named[0] if named else None


def _strikes(request: bytes, planned: Sequence[Due], *, meant: bool) -> bool:
    """Whether to strike now: at the worker that is meant, or at the last occasion at whichever."""
    effect = effect_of(request)
    last = bool(planned) and effect == planned[-1].effect_id
    return last or (meant and any(due.effect_id == effect for due in planned))


def _due(request: bytes, planned: Sequence[Due]) -> Due:
    effect = effect_of(request)
    return next(due for due in planned if due.effect_id == effect)


def _at(due: Due) -> str:
    return f"{due.task_id} is charged and not yet recorded"
