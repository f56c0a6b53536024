"""Former releases: their workers on the ledger of today, before, after and beside those of today."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Answer, Drop, LookupKnobs, Rule, SubmitKnobs
from tests.protocol.deployment import ROOT, step
from tests.protocol.kinds import MORTAL

RELEASES = sorted((Path(__file__).parents[1] / "releases").glob("ascertain-*.tar.xz"))
LOST = SubmitKnobs(reply=Drop(how="reset"))
DOWN = LookupKnobs(reply=Answer(status=503, body={}))
BUSY = SubmitKnobs(commit="never", reply=Answer(status=429, body={}))
POLICY = {"ask_cap": 2}


@pytest.fixture(scope="session", params=RELEASES, ids=lambda path: path.name)
def release(request, tmp_path_factory) -> Path:
    """The tree of a former release, which finds its own code first."""
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(request.param) as archive:
        archive.extractall(folder, filter="data")
    where = "import ascertain, workflows; print(ascertain.__file__, workflows.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], cwd=folder, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [
        str(folder / package / "__init__.py") for package in ("ascertain", "workflows")
    ]
    return folder


async def doubtful(deployment, names):
    """Tasks whose answers were lost, of an outside that cannot be asked."""
    deployment.outside.rules.add(Rule(lookup=DOWN))
    deployment.outside.rules.add(Rule(times=len(names), submit=LOST))
    effects = [await deployment.submit(name) for name in names]
    for effect in effects:
        await deployment.wait_for_row(effect, lambda row: row.state is State.UNKNOWN)
    return effects


async def settled_once(deployment, names):
    for name in names:
        assert (await deployment.result(name)).outcome is TaskOutcome.DONE
        effect = deployment.effect(name)
        assert (deployment.facts(effect), deployment.submits(effect)) == (1, 1)


async def hand_over(deployment, first, second):
    """What a worker of one release left in doubt, a worker of the other one ascertains."""
    before = await deployment.worker(release=first)
    await doubtful(deployment, ["a", "b"])
    await before.drain()
    await deployment.worker(release=second)
    deployment.outside.rules.clear()
    await settled_once(deployment, ["a", "b"])
    await deployment.submit("c")
    await settled_once(deployment, ["c"])


async def test_what_the_release_before_left_in_doubt_is_ascertained_by_this_one(
    deployments, release
):
    deployment = await deployments(policy=POLICY)
    await hand_over(deployment, release, ROOT)


async def test_a_roll_out_can_be_taken_back_while_effects_are_in_doubt(deployments, release):
    deployment = await deployments(policy=POLICY)
    await hand_over(deployment, ROOT, release)


async def test_the_release_before_obeys_gates_and_persons_on_the_ledger_of_today(
    deployments, release
):
    deployment = await deployments(policy={**POLICY, "budget": 1})
    await deployment.worker(release=release)
    partition = deployment.task_queue
    await deployment.gate(partition, paused=True)
    held = await deployment.submit("held", partition=partition)
    deployment.meet(BUSY)
    stuck = await deployment.submit("stuck", step(kind="toy.throttling"))
    row = await deployment.wait_for_row(stuck, lambda row: row.state is State.QUARANTINED)
    assert deployment.submits(held) == 0
    order = Command(action=Action.RETRY, operator="ada", reason="it is up", version=row.version)
    answer = await deployment.takeover("stuck", order)
    assert answer.applied, answer.message
    await deployment.gate(partition, paused=False)
    await deployment.result("stuck")
    await settled_once(deployment, ["held"])
    assert deployment.facts(stuck) == 1


async def test_two_releases_beside_each_other_that_are_killed_in_turn_leave_one_fact_each(
    deployments, release
):
    deployment = await deployments(policy={**MORTAL, **POLICY, "budget": 20})
    trees = [release, ROOT]
    workers = [await deployment.worker(release=tree) for tree in trees]
    names = [f"t-{number}" for number in range(24)]
    for number, name in enumerate(names):
        if number % 3 == 0:
            deployment.meet(LOST)
        await deployment.submit(name)
        if number % 8 == 7:
            turn = (number // 8) % 2
            await workers[turn].kill()
            workers[turn] = await deployment.worker(release=trees[turn])
    results = await asyncio.gather(*(deployment.result(name) for name in names))
    assert {result.outcome for result in results} == {TaskOutcome.DONE}
    assert [deployment.facts(deployment.effect(name)) for name in names] == [1] * len(names)
