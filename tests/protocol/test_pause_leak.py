"""A pause that is confirmed lets nothing more out, and a resume does not let everything out at once."""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import pairwise

from temporalio.api.enums.v1 import EventType

from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Answer, Rule, Silence, SubmitKnobs
from tests.protocol.deployment import ROOT, step
from tests.waiting import wait_until

BUSY = SubmitKnobs(commit="never", reply=Answer(status=429, body={}))
ACCEPTED_LATE = SubmitKnobs(commit=0.2, reply=Silence(seconds=30))
RATE = 5
RETRIES = {"retry_base": 0.5, "retry_cap": 1, "budget": 100, "held_recheck": 300}


async def cli(deployment, *arguments):
    """What a command of the operator says, as a document."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ascertain", *arguments, "--json"),
        cwd=ROOT,
        env=deployment.variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


async def standing(deployment, partition):
    known = (await cli(deployment, "partitions"))["partitions"]
    return next(each for each in known if each["partition"] == partition)


async def under_way(deployment, paused):
    """Three effects that are turned away again and again, and one whose answer does not come."""
    names = [f"retry-{number}" for number in range(3)]
    for name in names:
        deployment.outside.rules.add(Rule(key=deployment.effect(name), submit=BUSY))
        await deployment.submit(name, step(kind="toy.throttling"), partition=paused)
    for name in names:
        await deployment.wait_for_row(deployment.effect(name), lambda row: row.state is State.CLEAR)
    deployment.meet(ACCEPTED_LATE, key=deployment.effect("flying"))
    flying = await deployment.submit("flying", step(kind="toy.slow"), partition=paused)
    await deployment.outside.books.wait_for("submit", key=flying)
    return names


async def test_what_is_paused_stays_in_until_it_is_resumed_and_then_leaves_a_little_at_a_time(
    deployments,
):
    deployment = await deployments(policy=RETRIES)
    await deployment.worker()
    paused = deployment.task_queue  # a partition of its own; the server is shared
    retrying, late = await under_way(deployment, paused), ["late-1", "late-2"]
    await cli(deployment, "pause", paused, "--reason", "incident 7")
    for name in late:
        await deployment.submit(name, step(), partition=paused)
    neighbour = await deployment.submit("neighbour", step(), partition=f"{paused}-other")
    assert (await deployment.result("neighbour")).outcome is TaskOutcome.DONE
    assert deployment.facts(neighbour) == 1
    assert (await deployment.result("flying")).outcome is TaskOutcome.DONE, "what had left is asked"

    async def drained():
        return (await standing(deployment, paused))["drained"]

    await wait_until(drained, 60, what="the end of what was in flight")
    held = [*retrying, *late]
    sent = [deployment.submits(deployment.effect(name)) for name in held]
    assert sent[3:] == [0, 0]
    deployment.outside.rules.clear()  # the outside is well again, and nothing of this goes there

    async def five_held():
        return (await standing(deployment, paused))["held"] == 5

    await wait_until(five_held, 60, what="three whose timer is due and two that came later")
    known = await standing(deployment, paused)
    assert (known["paused"], known["drained"], known["in_flight"]) == (True, True, 0)
    assert (known["gate"]["reason"], known["waiting_to_retry"]) == ("incident 7", 3)
    assert [deployment.submits(deployment.effect(name)) for name in held] == sent
    assert (await cli(deployment, "resume", paused, "--wake-rate", str(RATE)))["woken"] == 5
    for name in held:
        assert (await deployment.result(name)).outcome is TaskOutcome.DONE
    assert [deployment.facts(deployment.effect(name)) for name in held] == [1] * 5
    woken = sorted([await _woken_at(deployment, name) for name in held])
    gaps = [after - before for before, after in pairwise(woken)]
    assert min(gap.total_seconds() for gap in gaps) > 0.9 / RATE


async def _woken_at(deployment, name):
    """When the server took the signal; the next one is sent only after the rest of the interval."""
    signalled = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    history = deployment.handle(name).fetch_history_events()
    (at,) = [e.event_time.ToDatetime() async for e in history if e.event_type == signalled]
    return at
