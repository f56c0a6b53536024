"""Many items at a set rate against an outside that takes ten a second; how many, the environment says.

``ASCERTAIN_REPLAY_ITEMS=5000 ./run test tests/protocol/test_big_replay.py -s`` is the long run.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from time import monotonic

import pytest

from ascertain.contracts.effect import State
from ascertain.contracts.replay import Result
from ascertain.testing.knob import Knobs, RateLimit, Rule
from tests.protocol.deployment import step
from tests.protocol.test_replay import BUSY, ONE_TRY, start, tally_of
from tests.waiting import wait_until

ITEMS = int(os.environ.get("ASCERTAIN_REPLAY_ITEMS", "40"))
LIMIT = 10
RATE = 9
# Set-up, dry run and replay at RATE, each with room for a busy machine.
WITHIN_S = 120 + ITEMS


def say(text):
    """Progress of a long run; `-s` shows it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def quarantine_all(deployment):
    deployment.outside.rules.add(Rule(times=ITEMS, submit=BUSY))
    free = asyncio.Semaphore(32)

    async def submit(number):
        async with free:
            task = step(kind="toy.throttling")
            await deployment.submit(f"t-{number}", task, partition=deployment.task_queue)

    await asyncio.gather(*(submit(number) for number in range(ITEMS)))

    async def all_quarantined():
        return await count(deployment, State.QUARANTINED) == ITEMS

    await wait_until(all_quarantined, WITHIN_S)


async def count(deployment, state):
    rows = await deployment.ledger._session.fetch(
        "select count(*) as n from ascertain.effects where state = $1", state.value
    )
    return rows[0]["n"]


@pytest.mark.timeout(WITHIN_S * 4)
async def test_many_items_are_replayed_at_a_set_rate_against_an_outside_that_limits_its_callers(
    deployments,
):
    deployment = await deployments(policy=ONE_TRY)
    worker = await deployment.worker()
    begun = monotonic()
    await quarantine_all(deployment)
    await worker.drain()
    say(f"{ITEMS} tasks quarantined after {monotonic() - begun:.0f} s")
    for kind in deployment.settings["kinds"].values():
        # So near its limit the outside turns an unlucky item away several times within a second or two.
        kind["policy"] = {**kind["policy"], "budget": 20}
    deployment.configure()
    await deployment.worker()
    deployment.outside.rules.clear()  # of answers that nobody came for: a busy machine sends later, or not
    deployment.outside.rules.knobs = Knobs(rate_limit=RateLimit(per_second=LIMIT))
    begun = monotonic()
    replay_id = await start(
        deployment, pace={"canary": 10, "batch": 200, "rate": RATE, "ask_rate": 100}
    )
    tally = await asyncio.wait_for(tally_of(deployment, replay_id, WITHIN_S * 3), WITHIN_S * 3)
    say(f"replayed after {monotonic() - begun:.0f} s: {tally.outlooks} {tally.results}")
    assert sum(tally.outlooks.values()) == sum(tally.results.values()) == tally.items == ITEMS
    items = await deployment.ledger.replays.items(replay_id, limit=ITEMS)
    assert [item for item in items if item.result is not Result.DONE] == []
    assert tally.results == {"DONE": ITEMS}
    facts = Counter(deployment.facts(deployment.effect(f"t-{number}")) for number in range(ITEMS))
    assert facts == {1: ITEMS}
    history = deployment.client.temporal.get_workflow_handle(replay_id).fetch_history_events()
    say(f"facts per item {dict(facts)}; events of history {len([e async for e in history])}")
