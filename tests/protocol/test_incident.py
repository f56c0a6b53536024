"""An incident keeps its order, asks a person before each step, and loses nothing to a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.contracts.incident import Approval, IncidentRequest, Step
from ascertain.contracts.replay import Say
from ascertain.contracts.task import TaskOutcome
from ascertain.errors import CommandRefused, Conflict
from ascertain.snapshot import check
from tests.protocol.deployment import step
from tests.protocol.test_replay import SOME_TRIES, TRIES, command_of, operations, quarantine
from tests.protocol.test_snapshot import quiet
from tests.waiting import wait_until
from workers.worker import sandbox
from workflows.incident import IncidentWorkflow

WORD = Say(operator="ada", reason="looked at it")
PACE = {"canary": 2, "batch": 10, "rate": 50, "patience": 60}


async def prepared(deployments):
    """A deployment that keeps its snapshots with the test's files."""
    deployment = await deployments(policy={**SOME_TRIES, "held_recheck": 300})
    deployment.settings["snapshots"] = str(deployment.folder / "kept")
    deployment.configure()
    return deployment


async def opened(deployment, **pace):
    request = IncidentRequest(
        operator="ada",
        reason="the provider was down",
        partition=deployment.task_queue,
        pace={**PACE, **pace},
        settle_within=20,
    )
    await operations(deployment).open_incident(request)
    return request.incident_id


async def waits_for(deployment, incident_id, wanted):
    async def told():
        found = await operations(deployment).incident_status(incident_id)
        return found if found.waiting_for is wanted else None

    return await wait_until(told, 90, what=f"an incident that waits for {wanted}")


async def approve(deployment, incident_id, wanted, request_id=None):
    word = Approval(operator="grace", reason="go", step=wanted, request_id=request_id)
    return await operations(deployment).say(incident_id, names.APPROVE, word)


async def held(deployment, *tasks):
    """Tasks that arrive while the partition is paused."""
    for task in tasks:
        await deployment.submit(task, step(), partition=deployment.task_queue)

    async def all_held():
        return {(await deployment.status(task)).state for task in tasks} == {"HELD"}

    await wait_until(all_held)


async def test_the_five_steps_take_a_partition_through_an_incident_in_their_order(deployments):
    deployment = await prepared(deployments)
    await deployment.worker()
    effects = await quarantine(deployment, "t-1", "t-2", "t-3", tries=TRIES)
    deployment.make_fact(effects[0], amount=1)
    incident_id = await opened(deployment)
    with pytest.raises(Conflict):
        await opened(deployment)
    await waits_for(deployment, incident_id, Step.SNAPSHOT)
    await held(deployment, "late")

    async def listed():  # by what a snapshot finds tasks with
        query = f"TaskPartition = '{deployment.task_queue}'"
        return await deployment.client.count(query) == len(effects) + 1

    await wait_until(listed, what="all tasks in a search")
    with pytest.raises(CommandRefused, match="next step is snapshot, not resume: the order"):
        await approve(deployment, incident_id, Step.RESUME)
    await approve(deployment, incident_id, Step.SNAPSHOT)
    found = await waits_for(deployment, incident_id, Step.RECONCILE)
    assert Path(found.snapshot.path).parent == deployment.folder / "kept"
    manifest = check.verify(Path(found.snapshot.path), on_progress=quiet)
    assert (manifest.counts["effects"], manifest.counts["tasks"]) == (3, 4)
    await approve(deployment, incident_id, Step.RECONCILE)
    found = await waits_for(deployment, incident_id, Step.REPLAY)
    assert (await deployment.row(effects[0])).state is State.SETTLED, "asking found it"
    assert found.tally.outlooks == {"ABSENT": 2}
    assert [deployment.submits(effect) for effect in effects] == [TRIES] * 3
    await approve(deployment, incident_id, Step.REPLAY)
    found = await waits_for(deployment, incident_id, Step.RESUME)
    assert found.tally.results == {"DONE": 2}
    assert deployment.facts(deployment.effect("late")) == 0, "the gate stayed closed to all else"
    assert (await deployment.status("late")).state == "HELD"
    await approve(deployment, incident_id, Step.RESUME)
    assert (await deployment.result("late")).outcome is TaskOutcome.DONE
    assert [deployment.facts(effect) for effect in effects] == [1, 1, 1]
    await waits_for(deployment, incident_id, None)
    await wait_until(lambda: _all_done(deployment, incident_id), 60)
    assert await operations(deployment).say(incident_id, names.CLOSE, WORD) == "closed"
    handle = deployment.client.temporal.get_workflow_handle(incident_id)
    ended = await asyncio.wait_for(handle.result(), 60)
    assert [done["step"] for done in ended["done"]] == list(Step)
    assert [done["operator"] for done in ended["done"]] == ["ada", *["grace"] * 4]
    replayer = Replayer(
        workflows=[IncidentWorkflow],
        workflow_runner=sandbox(),
        data_converter=pydantic_data_converter,
    )
    await replayer.replay_workflow(await handle.fetch_history())


@pytest.mark.timeout(300)
async def test_an_incident_survives_the_death_of_every_worker_at_every_step(deployments):
    deployment = await prepared(deployments)
    worker = await deployment.worker()
    tasks = [f"t-{number}" for number in range(6)]
    effects = await quarantine(deployment, *tasks, tries=TRIES)
    incident_id = await opened(deployment)
    for wanted in (Step.SNAPSHOT, Step.RECONCILE, Step.REPLAY, Step.RESUME):
        before = await waits_for(deployment, incident_id, wanted)
        await approve(deployment, incident_id, wanted)
        await worker.kill()
        worker = await deployment.worker()
    await wait_until(lambda: _all_done(deployment, incident_id), 90)
    found = await operations(deployment).incident_status(incident_id)
    assert [done.step for done in found.done] == list(Step)
    assert found.snapshot == before.snapshot, "the digest was kept"
    check.verify(Path(found.snapshot.path), on_progress=quiet)
    assert sum(found.tally.results.values()) == found.tally.items == 6
    for task in tasks:
        assert (await deployment.result(task)).outcome is TaskOutcome.DONE
    assert [deployment.facts(effect) for effect in effects] == [1] * 6


async def test_an_incident_that_is_closed_early_leaves_the_partition_paused(deployments):
    deployment = await prepared(deployments)
    await deployment.worker()
    incident_id = await opened(deployment)
    await waits_for(deployment, incident_id, Step.SNAPSHOT)
    handle = deployment.client.temporal.get_workflow_handle(incident_id)
    await handle.signal(names.APPROVE, {"step": "replay", "operator": "ada", "reason": "quick"})

    async def refused():
        return (await operations(deployment).incident_status(incident_id)).refused

    assert "the order cannot be skipped" in (await wait_until(refused))[0]
    answer = await operations(deployment).say(incident_id, names.CLOSE, WORD)
    assert answer.endswith(f"so the gate of {deployment.task_queue} stays as it is")
    (gate,) = await deployment.ledger.gates()
    assert gate.paused
    again = await opened(deployment)
    await waits_for(deployment, again, Step.SNAPSHOT)


async def test_each_step_of_an_incident_can_be_approved_under_the_same_request_id(deployments):
    deployment = await prepared(deployments)
    await deployment.worker()
    incident_id = await opened(deployment)
    for wanted in (Step.SNAPSHOT, Step.RECONCILE):
        await waits_for(deployment, incident_id, wanted)
        assert await approve(deployment, incident_id, wanted, "inc-42") == f"{wanted} begins"
    found = await waits_for(deployment, incident_id, Step.REPLAY)
    assert found.approved == {"inc-42": Step.RECONCILE}
    again = await approve(deployment, incident_id, Step.SNAPSHOT, "inc-42")
    assert again == "snapshot begins", "the first answer"
    found = await operations(deployment).incident_status(incident_id)
    assert (found.waiting_for, found.doing) == (Step.REPLAY, None)
    word = WORD.model_copy(update={"request_id": "inc-42"})
    assert (await operations(deployment).say(incident_id, names.CLOSE, word)).startswith("closed")


async def test_an_incident_counts_the_items_of_the_batch_in_hand(deployments):
    deployment = await prepared(deployments)
    await deployment.worker()
    await quarantine(deployment, "t-1", tries=TRIES)
    incident_id = await opened(deployment, patience=300)
    for wanted in (Step.SNAPSHOT, Step.RECONCILE, Step.REPLAY):
        found = await waits_for(deployment, incident_id, wanted)
        if wanted is Step.REPLAY:  # which passes its own gate, and not this one
            await deployment.gate("*", paused=True)
        await approve(deployment, incident_id, wanted)

    async def told():
        book = deployment.ledger.replays
        return (await book.tally(found.replay_id or "")).results.get("STARTED") == 1

    await wait_until(told)
    status = await command_of(deployment, "incident", "status", deployment.task_queue)
    assert status["tally"]["results"] == {"STARTED": 1}


async def test_an_incident_whose_replay_is_ended_from_outside_goes_on_to_its_end(deployments):
    deployment = await prepared(deployments)
    await deployment.worker()
    (effect,) = await quarantine(deployment, "t-1", tries=TRIES)
    incident_id = await opened(deployment, ask_rate=0.4)
    for wanted in (Step.SNAPSHOT, Step.RECONCILE):
        await waits_for(deployment, incident_id, wanted)
        await approve(deployment, incident_id, wanted)

    async def replay():
        return (await operations(deployment).incident_status(incident_id)).replay_id

    replay_id = await wait_until(replay, 60, what="the incident's replay")
    await deployment.client.temporal.get_workflow_handle(replay_id).terminate("by mistake")
    for wanted in (Step.REPLAY, Step.RESUME):
        await waits_for(deployment, incident_id, wanted)
        await approve(deployment, incident_id, wanted)
    await wait_until(lambda: _all_done(deployment, incident_id), 60)
    found = await operations(deployment).incident_status(incident_id)
    assert "ended early" in found.done[3].detail
    assert (await deployment.row(effect)).state is State.QUARANTINED, "as it was"


async def test_an_incident_that_is_cancelled_just_when_its_replay_is_approved_is_cancelled(
    deployments,
):
    deployment = await prepared(deployments)
    worker = await deployment.worker()
    incident_id = await opened(deployment)
    for wanted in (Step.SNAPSHOT, Step.RECONCILE):
        await waits_for(deployment, incident_id, wanted)
        await approve(deployment, incident_id, wanted)
    await waits_for(deployment, incident_id, Step.REPLAY)
    await worker.drain()
    handle = deployment.client.temporal.get_workflow_handle(incident_id)
    await handle.signal(names.APPROVE, {"step": "replay", "operator": "ada", "reason": "go on"})
    await handle.cancel()
    await deployment.worker()

    async def over():
        return (await handle.describe()).status is WorkflowExecutionStatus.CANCELED

    await wait_until(over)


async def _all_done(deployment, incident_id):
    return len((await operations(deployment).incident_status(incident_id)).done) == len(Step)
