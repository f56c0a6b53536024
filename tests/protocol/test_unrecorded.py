"""What an attempt knew while the ledger did not answer: the history alone holds it until it is recorded."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from activities.serving import Serving
from ascertain.client import Client
from ascertain.contracts import finding, outcome
from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import Evidence, Receipt, State
from ascertain.contracts.semantics import LookupBy, Policy, Semantics
from ascertain.contracts.task import TaskOutcome
from ascertain.errors import LedgerDown
from ascertain.keys import effect_id
from ascertain.ledger.model import ModelLedger
from ascertain.ports import Kind
from tests.waiting import wait_until
from workers.worker import Role, build_workers

QUEUE = "unrecorded"
ACCEPTED = "workflow_execution_update_accepted_event_attributes"
SAID = Evidence(source="answer", rule="status")


class Deaf(ModelLedger):
    """It takes no outcome of one step while it is deaf to it, and keeps in which order it took them."""

    def __init__(self, to):
        super().__init__(lambda: datetime.now(UTC))
        self.to = to
        self.took = []

    async def record(self, lease, came_to, *, retry_in=None):
        if lease.effect_id == self.to:
            raise LedgerDown("it does not answer")
        self.took.append(lease.effect_id)
        return await super().record(lease, came_to, retry_in=retry_in)


class Outside:
    semantics = Semantics(lookup=LookupBy.REFERENCE, in_flight_max=timedelta(0))

    def __init__(self):
        self.asked_for = asyncio.Event()
        self.answers = asyncio.Event()

    def prepare(self, effect):
        return effect.effect_id.encode()

    async def perform(self, call, permit):
        permit.check()
        if call.effect.step == "slow":
            self.asked_for.set()
            await self.answers.wait()
        return outcome.Settled(
            receipt=Receipt(external_id=f"fact-of-{call.effect.step}"), evidence=SAID
        )

    async def lookup(self, call, *, within):
        return finding.Absent()

    async def aclose(self):
        """Nothing is open."""


async def test_what_an_attempt_knew_is_recorded_before_a_step_is_taken_back(temporal_client):
    ids = {
        name: effect_id(temporal_client.namespace, "u-1", name, 0)
        for name in ("first", "slow", "first~undo")
    }
    ledger, outside = Deaf(ids["slow"]), Outside()
    kind = Kind("toy", Outside.semantics, Policy(), outside)
    client = Client(temporal_client, task_queue=QUEUE, task_timeout=timedelta(seconds=2))
    undo = {"undo": {"kind": "toy", "input": {}}}
    steps = [{"name": name, "kind": "toy", "input": {}} for name in ("first", "slow")]
    task = {"task_id": "u-1", "kind": "toy", "steps": [{**steps[0], **undo}, steps[1]]}
    (worker,) = build_workers(temporal_client, Serving(ledger, {"toy": kind}, "w"), Role(), QUEUE)
    async with worker:
        await client.submit(task)
        await outside.asked_for.wait()
        version = (await ledger.inspect(ids["first"])).row.version
        order = Command(action=Action.UNDO, operator="ada", reason="twice", version=version)
        ordered = asyncio.create_task(client.takeover("u-1", order))

        async def on_record():
            history = await temporal_client.get_workflow_handle("u-1").fetch_history()
            return any(event.WhichOneof("attributes") == ACCEPTED for event in history.events)

        await wait_until(on_record)
        outside.answers.set()

        async def held_by_the_history():
            entries = (await client.timeline("u-1")).entries
            return any((entry.step, entry.what) == ("slow", "reconcile_in") for entry in entries)

        await wait_until(held_by_the_history)
        assert (await ordered).applied
        ledger.to = None
        result = await client.result("u-1", within=timedelta(seconds=60))
    assert result.outcome is TaskOutcome.ABANDONED
    assert [done.state for done in (*result.steps, *result.undone)] == [State.SETTLED] * 3
    assert ledger.took == [ids["first"], ids["slow"], ids["first~undo"]]
