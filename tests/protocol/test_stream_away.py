"""The ledger does not answer as the chunks of a rated stream are to begin."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from activities.serving import Serving
from ascertain.client import Client
from ascertain.contracts import outcome
from ascertain.contracts.effect import Evidence, Receipt
from ascertain.contracts.semantics import LookupBy, Policy, Semantics
from ascertain.contracts.stream import Tally
from ascertain.door import admit
from ascertain.errors import LedgerDown
from ascertain.keys import effect_id
from ascertain.ledger.model import ModelLedger
from ascertain.ports import Kind
from ascertain.stream import Stream
from tests.waiting import wait_until
from workers.worker import Role, build_workers

QUEUE = "stream-away"
SEEN = Evidence(source="answer", rule="status")


class Away(ModelLedger):
    """While it is away it grants no chunk a claim, and counts how often it was asked."""

    def __init__(self):
        super().__init__(lambda: datetime.now(UTC))
        self.away, self.asked = True, 0

    async def claim_many(self, requests):
        self.asked += 1
        if self.away:
            raise LedgerDown("it does not answer")
        return await super().claim_many(requests)


class Outside:
    semantics = Semantics(lookup=LookupBy.REFERENCE, in_flight_max=timedelta(0))

    def prepare(self, effect):
        return effect.effect_id.encode()

    async def perform(self, call, permit):
        permit.check()
        receipt = Receipt(external_id=f"fact-{call.effect.effect_id}")
        return outcome.Settled(receipt=receipt, evidence=SEEN)


def task(number):
    step = {"name": "do", "kind": "toy", "input": {}}
    return admit({"task_id": f"away-{number}", "kind": "toy", "steps": [step]})


async def test_a_chunk_that_failed_has_its_turn_again(temporal_client):
    ledger, outside = Away(), Outside()
    kinds = {"toy": Kind("toy", outside.semantics, Policy(), outside)}
    (worker,) = build_workers(temporal_client, Serving(ledger, kinds, "worker"), Role(), QUEUE)
    stream = Stream(Client(temporal_client, task_queue=QUEUE), "away")
    async with worker:
        await stream.open(per_second=1)
        feeding = asyncio.create_task(stream.feed(0, [task(0)]))
        tries = 6  # of one carry, before it says that there is no ledger
        await wait_until(lambda: ledger.asked > tries, 30)
        ledger.away = False
        await feeding
        done = await stream.close()
    assert done.tally == Tally(tasks=1, settled=1)
    claim = (await ledger.audit(effect_id(temporal_client.namespace, "away-0", "do", 0)))[0]
    assert done.free_at > claim.at
