"""A roll-out with changed workflow code and without one kind, while fifty effects are in doubt."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from ascertain.contracts.directive import UNSERVED
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Answer, Drop, LookupKnobs, Rule, SubmitKnobs
from tests.protocol.deployment import step
from tests.protocol.later_workflow import LATER, LaterTaskWorkflow
from tests.waiting import wait_until
from workers.worker import sandbox

LOST = SubmitKnobs(reply=Drop(how="reset"))
DOWN = LookupKnobs(reply=Answer(status=503, body={}))
STAYS, GOES = "toy.asked", "toy.fact"
TASKS = {f"old-{number}": STAYS if number % 2 else GOES for number in range(50)}


async def in_doubt(deployment):
    """Fifty tasks whose answer was lost, of two kinds that cannot be asked now."""
    deployment.outside.rules.add(Rule(lookup=DOWN))
    deployment.outside.rules.add(Rule(times=len(TASKS), submit=LOST))
    await asyncio.gather(
        *(deployment.submit(name, step(kind=kind)) for name, kind in TASKS.items())
    )

    # Found in a search, so in a history that the workers of before have written.
    await wait_until(lambda: searched(deployment, TASKS), 90, what="fifty effects in doubt")
    assert {row.state for row in await deployment.rows()} == {State.UNKNOWN}


async def searched(deployment, names, more=""):
    """Whether a search shows these tasks of the deployment as UNKNOWN, and no other."""
    query = f"TaskQueue = '{deployment.task_queue}' AND TaskState = 'UNKNOWN'{more}"
    found = {task.id async for task in deployment.client.tasks(query, limit=1000)}
    return found == {deployment.id(name) for name in names}


@pytest.mark.timeout(300)
async def test_a_roll_out_without_a_kind_sends_nothing_fails_nothing_and_goes_on_when_it_is_back(
    deployments,
):
    deployment = await deployments(policy={"ask_cap": 2})
    before = await deployment.worker()
    await in_doubt(deployment)
    await before.drain()
    deployment.configure(without=(GOES,))
    during = await deployment.worker(module="tests.protocol.later_worker")
    deployment.outside.rules.clear()
    stay = [name for name, kind in TASKS.items() if kind == STAYS]
    gone = [name for name, kind in TASKS.items() if kind == GOES]
    for name in stay:
        assert (await deployment.result(name)).outcome is TaskOutcome.DONE
    unserved = f" AND TaskErrorClass = '{UNSERVED}'"
    await wait_until(lambda: searched(deployment, gone, unserved), 90, what="what nobody serves")
    opened = (await deployment.status(gone[0])).open
    assert f"no worker here knows kind {GOES}" in opened.reason
    await during.drain()
    deployment.configure()
    await deployment.worker(module="tests.protocol.later_worker")
    for name in gone:
        await deployment.hurry(name)
    for name in gone:
        assert (await deployment.result(name)).outcome is TaskOutcome.DONE
    effects = [deployment.effect(name) for name in TASKS]
    assert [deployment.submits(effect) for effect in effects] == [1] * len(TASKS)
    assert [deployment.facts(effect) for effect in effects] == [1] * len(TASKS)
    assert {row.state for row in await deployment.rows()} == {State.SETTLED}
    await deployment.submit("new", step())
    assert (await deployment.result("new")).outcome is TaskOutcome.DONE
    await _replays(deployment, [*gone, *stay[:5], "new"])


async def _replays(deployment, names):
    replayer = Replayer(
        workflows=[LaterTaskWorkflow],
        workflow_runner=sandbox(),
        data_converter=pydantic_data_converter,
        namespace=deployment.client.temporal.namespace,
    )
    for name in names:
        history = await deployment.handle(name).fetch_history()
        later = any(
            LATER in str(event.marker_recorded_event_attributes) for event in history.events
        )
        assert later == (name == "new"), "what had begun goes on as it began"
        await replayer.replay_workflow(history)
