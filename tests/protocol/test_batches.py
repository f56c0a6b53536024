"""Many effects in one call: each keeps its own id, state and lookup, and only what is open is followed up."""

from __future__ import annotations

import asyncio

import pytest

from ascertain.contracts.effect import State
from ascertain.contracts.stream import Tally
from ascertain.contracts.task import TaskOutcome
from ascertain.door import admit
from ascertain.stream import Stream
from ascertain.testing.knob import Answer, Drop, Knobs, LookupKnobs, Rule, Silence, SubmitKnobs
from tests.protocol.deployment import ROOT, step
from tests.protocol.kinds import MORTAL, POLICY

NAMES = ("b0", "b1", "b2", "b3")
# What a deployment file describes, and code that somebody writes.
BATCHED = step(kind="toy.batched")
BUNDLED = {"name": "do", "kind": "letter.post", "input": {"text": "hello"}}
BY_ADAPTER = pytest.mark.parametrize("batched", [BATCHED, BUNDLED], ids=["http", "own"])
DOWN = Knobs(lookup=LookupKnobs(reply=Answer(status=503, body={})))


@pytest.fixture
async def deployment(deployments):
    return await deployments(policy={"retry_base": 0.1})


@pytest.fixture
def effects(deployment):
    return [deployment.effect(name) for name in NAMES]


@pytest.fixture
def bundles(deployment):
    """The deployment serves an adapter of one's own too."""
    deployment.settings["kinds"]["letter.post"] = {
        "adapter": "tests.conform.bundles:create",
        "options": {
            "base_url": deployment.outside.url,
            "token": "secret:TOKEN",
            "wrong": "Bundles",
        },
        "semantics": {"in_flight_max": 1},
        "policy": POLICY,
    }
    deployment._environment["ASCERTAIN_SECRET_TOKEN"] = "t"
    deployment._environment["PYTHONPATH"] = str(ROOT / "examples" / "adapter")
    deployment.configure()


async def carried(deployment, batched=BATCHED):
    """The four tasks in one chunk, and what became of it."""
    stream = Stream(deployment.client, deployment.id("batch"))
    await stream.open()
    tasks = [admit(deployment.task(name, batched)) for name in NAMES]

    async def each():
        for task in tasks:
            yield task

    async for _ in stream.carry(each(), chunk=len(NAMES)):
        pass
    return await stream.close()


def meet(deployment, effect, knobs):
    deployment.outside.rules.add(Rule(reference=effect, times=1, submit=knobs))


def counts(deployment, effects):
    facts = [deployment.facts(effect) for effect in effects]
    books = deployment.outside.books
    return [books.count("submit", None, effect) for effect in effects], facts


async def test_what_one_call_did_is_settled_each_by_its_own_item(deployment, effects):
    await deployment.worker()
    ended = await carried(deployment)
    assert ended.tally == Tally(tasks=4, settled=4)
    assert counts(deployment, effects) == ([1] * 4, [1] * 4)
    ports = {
        submit.peer_port
        for submit in deployment.outside.books.submits
        if submit.reference in effects
    }
    assert len(ports) == 1
    proved = [(await deployment.row(effect)).external_id for effect in effects]
    assert len(set(proved)) == 4
    assert await deployment.moves(effects[0]) == ["claim", "settle"]


@BY_ADAPTER
@pytest.mark.usefixtures("bundles")
async def test_of_a_batch_that_came_out_in_parts_only_the_open_item_is_followed_up(
    deployment, effects, batched
):
    await deployment.worker()
    failed = SubmitKnobs(commit="never", reply=Answer(status=500))
    meet(deployment, effects[2], failed)
    ended = await carried(deployment, batched)
    assert ended.tally == Tally(tasks=4, settled=3, handed_over=1)
    assert (await deployment.result("b2")).outcome is TaskOutcome.DONE
    assert counts(deployment, effects) == ([1, 1, 2, 1], [1] * 4)
    moves = await deployment.moves(effects[2])
    assert moves == ["claim", "doubt", "find_absent", "claim", "settle"]


@BY_ADAPTER
@pytest.mark.usefixtures("bundles")
async def test_when_the_answer_to_a_batch_is_lost_each_item_is_looked_up_by_itself(
    deployment, effects, batched
):
    await deployment.worker()
    deployment.outside.rules.knobs = DOWN
    lost = Drop(how="reset")
    for effect in effects[:2]:
        meet(deployment, effect, SubmitKnobs(reply=lost))
    for effect in effects[2:]:
        meet(deployment, effect, SubmitKnobs(commit="never", reply=lost))
    ended = await carried(deployment, batched)
    assert ended.tally == Tally(tasks=4, handed_over=4)
    states = [(await deployment.row(effect)).state for effect in effects]
    assert states == [State.UNKNOWN] * 4
    assert counts(deployment, effects) == ([1] * 4, [1, 1, 0, 0])
    deployment.outside.rules.knobs = Knobs()
    for name in NAMES:
        assert (await deployment.result(name)).outcome is TaskOutcome.DONE
    assert counts(deployment, effects) == ([1, 1, 2, 2], [1] * 4)


async def test_a_worker_killed_before_it_hears_of_a_batch_leaves_one_fact_of_each(
    deployment, effects
):
    deployment.settings["kinds"]["toy.batched"]["policy"] |= MORTAL
    deployment.configure()
    doomed = await deployment.worker()
    meet(deployment, effects[3], SubmitKnobs(reply=Silence(seconds=60)))
    carrying = asyncio.create_task(carried(deployment))
    await deployment.outside.books.wait_for("submit", reference=effects[3])
    await doomed.kill()
    await deployment.worker()
    ended = await carrying
    assert ended.tally == Tally(tasks=4, handed_over=4)
    for name in NAMES:
        assert (await deployment.result(name)).outcome is TaskOutcome.DONE
    assert counts(deployment, effects) == ([1] * 4, [1] * 4)
