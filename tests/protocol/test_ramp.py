"""A partition that opens little by little: nothing leaves before its turn, whoever wakes the tasks."""

from __future__ import annotations

from datetime import timedelta

from ascertain.contracts.task import TaskOutcome
from ascertain.ledger.gate import turn_of
from tests.protocol.deployment import step
from tests.protocol.test_pause_leak import cli
from tests.waiting import wait_until

DAYS, SHORT = timedelta(days=7), timedelta(seconds=4)


def late(deployment, gate, count):
    """Names of tasks whose turns come in the second half of the ramp."""
    half = gate.since + (gate.ramp_until - gate.since) / 2
    every = (f"task-{number}" for number in range(1000))
    found = (n for n in every if turn_of(deployment.effect(n), gate.since, gate.ramp_until) > half)
    return [next(found) for _ in range(count)]


async def gate_of(deployment, partition):
    return next(gate for gate in await deployment.ledger.gates() if gate.partition == partition)


async def test_what_was_held_and_what_comes_new_both_wait_for_their_turn(deployments):
    deployment = await deployments(policy={"held_recheck": 300})
    await deployment.worker()
    ours = deployment.task_queue  # a partition of its own; the server is shared
    await cli(deployment, "pause", ours, "--reason", "incident 7")
    paused = await gate_of(deployment, ours)
    names = late(deployment, paused.model_copy(update={"ramp_until": paused.since + DAYS}), 4)
    effects = {name: deployment.effect(name) for name in names}

    async def turn(name):
        status = await deployment.status(name)
        return status.open is not None and status.state == "HELD" and status.open.turn_at

    async def held(count):
        known = (await cli(deployment, "partitions"))["partitions"]
        return next(each["held"] for each in known if each["partition"] == ours) == count

    for name in names[:2]:
        await deployment.submit(name, step(), partition=ours)
    await wait_until(lambda: held(2), 60, what="two held tasks")
    assert (await cli(deployment, "resume", ours, "--ramp", "7d"))["woken"] == 2
    for name in names[2:]:
        await deployment.submit(name, step(), partition=ours)
    gate = await gate_of(deployment, ours)
    assert gate.ramp_until == gate.since + DAYS
    for name in names:
        told = await wait_until(lambda name=name: turn(name), 60, what=f"the turn of {name}")
        assert told == turn_of(effects[name], gate.since, gate.ramp_until)
    assert [deployment.submits(effect) for effect in effects.values()] == [0] * 4

    # The newest ramp counts, also for those who were told of another turn.
    await wait_until(lambda: held(4), 60, what="four held tasks")
    seconds = str(SHORT.seconds)
    assert (await cli(deployment, "resume", ours, "--ramp", seconds))["woken"] == 4
    gate = await gate_of(deployment, ours)
    for name, effect in effects.items():
        assert (await deployment.result(name)).outcome is TaskOutcome.DONE
        begun = (await deployment.ledger.audit(effect))[0]
        assert begun.move == "claim"
        assert begun.at >= turn_of(effect, gate.since, gate.ramp_until)
    assert [deployment.facts(effect) for effect in effects.values()] == [1] * 4
