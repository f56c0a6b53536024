"""Commands that come as a task ends are applied or refused, and never lost."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from activities.serving import Serving
from ascertain.client import Client
from ascertain.contracts import finding, outcome
from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import Evidence, Receipt, State
from ascertain.contracts.semantics import LookupBy, Policy, Semantics
from ascertain.contracts.task import TaskOutcome
from ascertain.keys import effect_id
from ascertain.ledger.model import ModelLedger
from ascertain.ports import Kind
from tests.waiting import wait_until
from workers.worker import Role, build_workers

QUEUE = "last-moment"
SAID = Evidence(source="answer", rule="status")


class SlowToNote(ModelLedger):
    """A ledger whose word about a note comes when it may."""

    def __init__(self):
        super().__init__(lambda: datetime.now(UTC))
        self.noted, self.may = asyncio.Event(), asyncio.Event()

    async def note(self, *arguments, **named):
        await super().note(*arguments, **named)
        self.noted.set()
        await self.may.wait()


class Outside:
    """Does what it is told; the step ``slow`` when it may."""

    semantics = Semantics(lookup=LookupBy.REFERENCE, in_flight_max=timedelta(0))

    def __init__(self):
        self.called, self.may = asyncio.Event(), asyncio.Event()
        self.done = []

    def prepare(self, effect):
        return effect.effect_id.encode()

    async def perform(self, call, permit):
        permit.check()
        if call.effect.step == "slow":
            self.called.set()
            await self.may.wait()
        self.done.append(call.effect.step)
        return outcome.Settled(
            receipt=Receipt(external_id=f"fact-{call.effect.step}"), evidence=SAID
        )

    async def lookup(self, call, *, within):
        return finding.Absent()

    async def aclose(self):
        pass


@pytest.fixture
def parts():
    return SlowToNote(), Outside()


@asynccontextmanager
async def working(temporal_client, ledger, outside):
    kind = Kind("toy", Outside.semantics, Policy(), outside)
    serving = Serving(ledger, {"toy": kind}, "worker")
    (worker,) = build_workers(temporal_client, serving, Role(), QUEUE)
    async with worker:
        # A query is answered when the workflow task is given back, at four fifths of this at the latest.
        yield Client(temporal_client, task_queue=QUEUE, task_timeout=timedelta(seconds=6))


async def test_an_undo_that_is_ordered_as_the_last_step_settles_is_done(temporal_client, parts):
    ledger, outside = parts
    steps = [{"name": name, "kind": "toy", "input": {}} for name in ("first", "slow")]
    steps[0]["undo"] = {"kind": "toy", "input": {}}

    def effect(name):
        return effect_id(temporal_client.namespace, "last-1", name, 0)

    async def settled():
        case = await ledger.inspect(effect("slow"))
        return case is not None and case.row.state is State.SETTLED

    async def all_done():
        return len((await client.status("last-1")).steps) == len(steps)

    async with working(temporal_client, ledger, outside) as client:
        await client.submit({"task_id": "last-1", "kind": "toy", "steps": steps})
        await outside.called.wait()
        version = (await ledger.inspect(effect("first"))).row.version
        word = Command(action=Action.UNDO, operator="ada", reason="ordered twice", version=version)
        ordered = asyncio.create_task(client.takeover("last-1", word))
        await ledger.noted.wait()
        outside.may.set()
        await wait_until(settled, 60)
        await wait_until(all_done, 60)
        ledger.may.set()
        assert (await ordered).applied
        result = await client.result("last-1")
    assert result.outcome is TaskOutcome.ABANDONED
    assert outside.done == ["first", "slow", "first~undo"]
