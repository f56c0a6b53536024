"""A worker that is killed with every adapter at the same place leaves of each what its class says."""

from __future__ import annotations

from typing import Any

import pytest

from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from drill.points import Point
from tests.effects.outsides import DONE, ended
from tests.protocol.kinds import POLICY
from tests.waiting import wait_until

REPEAT = "order.repeat"
# Whoever can be asked, or drops repeats, has it once; of the others a person is told, once or not at all.
SURE = ("http", "stripe", "object", "sql", "command", "repeat")
UNSURE = ("smtp", "generate", "webhook")
# A permit for a busy machine, and a heartbeat that is soon missed.
KILLED = {"lease": 3, "heartbeat": 1}
COMPUTE = {
    "adapter": "compute",
    "options": {"function": "tests.adapters.formula:hangs_once", "timeout": 60},
    "policy": {**POLICY, "heartbeat": 1},
}


async def submitted(deployment: Any, outsides: Any) -> dict[str, str]:
    """A task of each, by its name: the effect's id."""
    kinds = {name: (each.kind, each.trial) for name, each in outsides.items()}
    kinds["repeat"] = (REPEAT, outsides["webhook"].trial)
    begun = {}
    for number, (name, (kind, trial)) in enumerate(kinds.items(), start=1):
        step = {"name": "do", "kind": kind, "input": trial.input(number)}
        begun[name] = await deployment.submit(name, step)
    return begun


@pytest.mark.parametrize("point", [Point.AFTER_CLAIM, Point.AFTER_ANSWER, Point.AFTER_RECORD])
async def test_every_adapter_whose_worker_is_killed_leaves_one_fact_or_a_person_is_told(
    deployments, outsides, point, tmp_path
):
    deployment = await deployments()
    for each in outsides.values():
        each.serve(deployment, policy=KILLED)
    outsides["webhook"].serve(deployment, REPEAT, policy=KILLED, idempotent_for=3600, key_margin=5)
    deployment.settings["kinds"]["price.quote"] = COMPUTE
    deployment.configure()
    claims = len(SURE) + len(UNSURE)
    doomed = await deployment.worker(deployment.plan(point, together=claims))
    mark = tmp_path / "computing"
    quote = {"name": "do", "kind": "price.quote", "input": {"mark": str(mark)}}
    await deployment.submit("quote", quote)
    await wait_until(mark.exists, what="the computation")
    begun = await submitted(deployment, outsides)
    await doomed.process.wait()
    left = {name: await outsides[name].facts(begun[name]) for name in UNSURE}
    assert point is not Point.AFTER_CLAIM or not any(left.values())
    await deployment.worker()
    found = {}
    for name, effect in begun.items():
        row = await ended(deployment, effect)
        told = await outsides["webhook" if name == "repeat" else name].facts(effect)
        # A consumer that drops repeats has one event of one id, however often it was told.
        found[name] = row.state, min(told, 1) if name == "repeat" else told
        if row.state is State.SETTLED:
            assert (await deployment.result(name)).outcome is TaskOutcome.DONE
    # Where nobody can be asked there is what there was, and nothing is sent again.
    unsure = {name: (State.QUARANTINED, left[name]) for name in UNSURE}
    if point is Point.AFTER_RECORD:
        unsure = dict.fromkeys(UNSURE, DONE)
    assert found == {**dict.fromkeys(SURE, DONE), **unsure}
    assert (await deployment.result("quote")).outcome is TaskOutcome.DONE
    assert deployment.strikes() == 1
