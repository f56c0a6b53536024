"""A chaos run: the plan carried out, everything brought to an end, and what the books say then."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio.service import RPCError

from ascertain.contracts import names
from ascertain.contracts.effect import TERMINAL, State
from ascertain.contracts.gate import GateChange
from ascertain.errors import AscertainError, Unavailable
from ascertain.ports import EffectFilter
from drill.chaos.crew import WorkerSeat, server_seat
from drill.chaos.plan import PARTITIONS, SEATS, Blow
from drill.chaos.rule import rules
from drill.deployment import Timing, amount_of, task
from drill.kind import name_of
from drill.person import NAME, Person

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue

    from drill.chaos.plan import ChaosPlan, Errand, Event
    from drill.deployment import Deployment
    from drill.stack import Stack

# Generous, for a busy machine must not break a promise that the outside made.
TIMING: Final = Timing(
    in_flight_max_s=5, timeout_s=1, lease_s=2, heartbeat_s=2, sweep_every_s=5, budget=5
)
_OPEN_AT_ONCE: Final = 300
_SUBMITS_AT_ONCE: Final = 20
_SETTLED_WITHIN_S: Final = 400.0
_LOOK_S: Final = 1.0
_TELL_S: Final = 15.0
_RECENT: Final = 40


class Chaos:
    """Carries a plan out on one deployment."""

    def __init__(
        self, stack: Stack, deployment: Deployment, plan: ChaosPlan, tell: Callable[[str], None]
    ) -> None:
        self._deployment = deployment
        self._plan = plan
        self._tell = tell
        self._workers = [WorkerSeat(deployment.worker()) for _ in range(SEATS)]
        self._temporal = server_seat(stack.temporal)
        self._postgres = server_seat(stack.postgres)
        self._person = Person(deployment, timedelta(seconds=TIMING.in_flight_max_s))
        self._submits = asyncio.Semaphore(_SUBMITS_AT_ONCE)
        self.begun: list[Errand] = []
        self.blows: Counter[Blow] = Counter()
        self.anomalies: list[str] = []
        self._open = 0
        self._began = 0.0

    @property
    def decided(self) -> int:
        """How many decisions a person made."""
        return self._person.decided

    @property
    def by_hand(self) -> int:
        """How many facts a person made by hand."""
        return self._person.by_hand

    async def run(self) -> bool:
        """Let everything go wrong as planned, then let it come right.

        Returns:
            Whether everything came to its end in time.
        """
        await asyncio.gather(*(seat.fill() for seat in self._workers))
        self._began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as watching:
            watchers = [
                watching.create_task(work)
                for work in (self._person.work(), self._look(), self._report())
            ]
            async with asyncio.TaskGroup() as going_wrong:
                going_wrong.create_task(self._ask(going_wrong))
                going_wrong.create_task(self._strike(going_wrong))
            self._tell("no more faults; waiting until everything has come right")
            settled = await self._settled()
            for watcher in watchers:
                watcher.cancel()
        return settled

    async def _until(self, at_s: float) -> None:
        late = asyncio.get_running_loop().time() - self._began
        await asyncio.sleep(max(at_s - late, 0))

    async def _ask(self, group: asyncio.TaskGroup) -> None:
        for errand in self._plan.errands:
            await self._until(errand.at_s)
            while self._open > _OPEN_AT_ONCE:  # noqa: ASYNC110 - the server sets no Event
                await asyncio.sleep(_LOOK_S)
            await self._submits.acquire()
            group.create_task(self._begin(errand))

    async def _begin(self, errand: Errand) -> None:
        effect = self._deployment.effect_of(errand.task_id)
        outside = self._deployment.place_of(errand.outside)
        for rule in rules(errand, effect):
            outside.rules.add(rule)
        try:
            await self._submit(errand)
            self.begun.append(errand)
        finally:
            self._submits.release()

    async def _submit(self, errand: Errand) -> bool:
        """Submit until it is acknowledged, as a producer does; whether it had been before."""
        while True:
            with contextlib.suppress(Unavailable):
                done = await self._deployment.client.submit(task_of(errand))
                return done.duplicate or done.restarted
            await asyncio.sleep(_LOOK_S)

    async def _strike(self, group: asyncio.TaskGroup) -> None:
        for event in self._plan.events:
            await self._until(event.at_s)
            group.create_task(self._blow(event))

    async def _blow(self, event: Event) -> None:
        struck = False
        with contextlib.suppress(AscertainError, RPCError):
            struck = await self._struck(event)
        self.blows[event.blow] += struck

    async def _struck(self, event: Event) -> bool:
        match event.blow:
            case Blow.WORKER_KILLED | Blow.WORKER_FROZEN:
                return await self._strike_worker(event)
            case Blow.LEDGER_KILLED:
                await self._postgres.kill(event.lasts_s)
            case Blow.SERVER_KILLED:
                await self._temporal.kill(event.lasts_s)
            case Blow.GATE_SWITCHED:
                await self._switch(event)
            case Blow.TAKEN_OVER:
                return await self._person.take_one(event.choice)
            case Blow.DELIVERED_AGAIN:
                return await self._deliver_again(event)
            case Blow.TERMINATED:
                return await self._terminate(event)
        return True

    async def _strike_worker(self, event: Event) -> bool:
        free = [seat for seat in self._workers if seat.free]
        if not free:
            return False
        seat = free[int(event.choice * len(free))]
        if event.blow is Blow.WORKER_KILLED:
            await seat.kill(event.lasts_s)
        else:
            await seat.freeze(event.lasts_s)
        return True

    async def _switch(self, event: Event) -> None:
        partition = PARTITIONS[int(event.choice * len(PARTITIONS))]
        await self._gate(partition, paused=True, request_id=f"pause-{partition}-{event.at_s}")
        await asyncio.sleep(event.lasts_s)
        await self._gate(partition, paused=False, request_id=f"open-{partition}-{event.at_s}")

    async def _gate(self, partition: str, *, paused: bool, request_id: str) -> None:
        change = GateChange(
            partition=partition, paused=paused, by=NAME, reason="chaos", request_id=request_id
        )
        while True:
            with contextlib.suppress(Unavailable):
                await self._deployment.ledger.set_gate(change)
                return
            await asyncio.sleep(_LOOK_S)

    def _recent(self, event: Event) -> Errand | None:
        recent = self.begun[-_RECENT:]
        return recent[int(event.choice * len(recent))] if recent else None

    async def _deliver_again(self, event: Event) -> bool:
        errand = self._recent(event)
        if errand is None:
            return False
        if not await self._submit(errand):
            self.anomalies.append(
                f"{errand.task_id}: a repeated delivery started a task of its own"
            )
        return True

    async def _terminate(self, event: Event) -> bool:
        """End a workflow from outside; the message is delivered again, as after any such end."""
        rows = await self._deployment.ledger.effects(_open_effects(1000))
        if not rows:
            return False
        number = amount_of(rows[int(event.choice * len(rows))].task_id)
        errand = self._plan.errands[number]
        handle = self._deployment.client.temporal.get_workflow_handle(errand.task_id)
        await handle.terminate("chaos")
        await self._submit(errand)
        return True

    async def _look(self) -> None:
        """Know how many tasks are open, for ever."""
        query = f"WorkflowType = '{names.TASK_WORKFLOW}' AND ExecutionStatus = 'Running'"
        while True:
            with contextlib.suppress(RPCError):
                counted = await self._deployment.client.temporal.count_workflows(
                    query, rpc_timeout=timedelta(seconds=5)
                )
                self._open = counted.count
            await asyncio.sleep(_LOOK_S)

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_TELL_S)
            passed = asyncio.get_running_loop().time() - self._began
            blows = ", ".join(f"{count} {blow}" for blow, count in sorted(self.blows.items()))
            self._tell(f"{passed:.0f} s: {len(self.begun)} tasks, {self._open} open; {blows}")

    async def _settled(self) -> bool:
        deadline = asyncio.get_running_loop().time() + _SETTLED_WITHIN_S
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(2 * _LOOK_S)  # visibility lags by about a second
            with contextlib.suppress(AscertainError):
                still = await self._deployment.ledger.effects(_open_effects(1))
                if self._open == 0 and not still:
                    return True
        return False


def _open_effects(limit: int) -> EffectFilter:
    return EffectFilter(states=frozenset(State) - TERMINAL, limit=limit)


def task_of(errand: Errand) -> dict[str, JsonValue]:
    """The errand's task as public JSON."""
    return task(
        errand.task_id,
        name_of(errand.outside, errand.route),
        amount=errand.amount,
        partition=errand.partition,
        message_id=f"message-{errand.number}",
    )
