"""A snapshot holds what recovery could change, proves that it is whole, and its histories replay."""

from __future__ import annotations

import base64
import json
import zipfile
from datetime import UTC, datetime

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from ascertain.contracts.command import Action
from ascertain.contracts.effect import State
from ascertain.contracts.snapshot import Scope
from ascertain.errors import InvalidSettings
from ascertain.snapshot import archive, check
from ascertain.snapshot.archive import BrokenSnapshot, Reader
from ascertain.snapshot.taking import take
from ascertain.testing.knob import Drop, SubmitKnobs
from tests.protocol.deployment import step
from tests.protocol.test_person import command
from tests.waiting import wait_until
from workers.worker import sandbox
from workflows.task import TaskWorkflow

AT = datetime(2026, 5, 3, 12, 0, tzinfo=UTC)
SECRET = "tok-never-in-an-archive"


def quiet(_: str) -> None:
    """Nobody looks."""


async def stood_still(deployment):
    """One task that is done, one in quarantine, one in another partition."""
    await deployment.worker()
    stuck = deployment.effect("stuck")
    deployment.meet(SubmitKnobs(reply=Drop(how="reset")), key=stuck)
    await deployment.submit("done", partition=deployment.task_queue)
    await deployment.result("done")
    await deployment.submit("stuck", step(kind="toy.neither"), partition=deployment.task_queue)
    await deployment.submit("elsewhere", partition="q")
    await deployment.result("elsewhere")
    await deployment.wait_for_row(stuck, lambda row: row.state is State.QUARANTINED)

    async def listed():
        ended = "ExecutionStatus = 'Completed'"
        tasks = {task.id async for task in deployment.client.tasks(ended)}
        query = f"TaskState = 'QUARANTINED' AND TaskPartition = '{deployment.task_queue}'"
        waiting = [task.id async for task in deployment.client.tasks(query)]
        return waiting and {deployment.id(name) for name in ("done", "elsewhere")} <= tasks

    await wait_until(listed)


async def taken(deployment, name="one.zip", **scope):
    return await take(
        deployment.ledger,
        deployment.client,
        Scope(**scope),
        deployment.folder / name,
        taken_at=AT,
        on_progress=quiet,
    )


def tampered(source, name, change):
    """The same archive with one file's bytes changed and all else rewritten as it was."""
    target = source.with_name("tampered.zip")
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for item in old.namelist():
            content = old.read(item)
            new.writestr(item, change(content) if item == name else content)
    return target


async def test_a_snapshot_of_a_partition_holds_its_tasks_and_nobody_elses(deployments):
    deployment = await deployments()
    await stood_still(deployment)
    snapshot = await taken(deployment, partition=deployment.task_queue)
    with Reader.open(snapshot.path) as reader:
        tasks = {json.loads(line)["task_id"] for line in reader.lines(archive.TASKS)}
        rows = {trail.row.task_id: trail for trail in check.trails(reader)}
        histories = {task_id for task_id, _ in reader.histories()}
    mine = {deployment.id("done"), deployment.id("stuck")}
    assert tasks == mine
    assert set(rows) == mine
    assert histories == mine
    row = await deployment.row(deployment.effect("stuck"))
    kept = rows[deployment.id("stuck")].row
    assert kept.model_dump(exclude={"now"}) == row.model_dump(exclude={"now"})


async def test_what_is_closed_is_left_out_of_a_snapshot_of_the_unresolved(deployments):
    deployment = await deployments()
    await stood_still(deployment)
    await deployment.handle("stuck").terminate("by hand")
    snapshot = await taken(deployment, partition=deployment.task_queue, unresolved=True)
    with Reader.open(snapshot.path) as reader:
        assert [task_id for task_id, _ in reader.histories()] == [deployment.id("stuck")]
        assert [trail.row.state for trail in check.trails(reader)] == [State.QUARANTINED]


async def test_a_task_that_was_begun_again_is_counted_once_and_its_runs_apart(deployments):
    deployment = await deployments()
    await stood_still(deployment)
    await deployment.handle("stuck").terminate("by hand")
    await deployment.submit("stuck", step(kind="toy.neither"), partition=deployment.task_queue)

    async def both():
        query = f"WorkflowId = '{deployment.id('stuck')}'"
        return len([run.run_id async for run in deployment.client.tasks(query)]) == 2

    await wait_until(both)
    snapshot = await taken(deployment, partition=deployment.task_queue)
    counts = check.verify(snapshot.path, on_progress=quiet).counts
    assert (counts["tasks"], counts["runs"], counts["histories"]) == (2, 3, 3)

    def of_a_release_that_counted_no_runs(manifest):
        told = json.loads(manifest)
        told["counts"]["tasks"] = told["counts"].pop("runs")
        return json.dumps(told)

    old = tampered(snapshot.path, archive.MANIFEST, of_a_release_that_counted_no_runs)
    assert check.verify(old, on_progress=quiet).counts["tasks"] == 3


async def test_every_history_of_a_snapshot_replays_offline(deployments):
    deployment = await deployments()
    await stood_still(deployment)
    row = await deployment.row(deployment.effect("stuck"))
    take_it = command(Action.TAKE, row, effect_id=row.effect_id, override=True)
    answer = await deployment.takeover("stuck", take_it)
    assert answer.applied, answer.message
    snapshot = await taken(deployment, partition=deployment.task_queue)
    with Reader.open(snapshot.path) as reader:
        histories = list(reader.histories())
        replayer = Replayer(
            workflows=[TaskWorkflow],
            workflow_runner=sandbox(),
            data_converter=pydantic_data_converter,
            namespace=reader.manifest.namespace,
        )
    assert len(histories) == 2
    for task_id, history in histories:
        await replayer.replay_workflow(WorkflowHistory.from_json(task_id, history))


async def test_the_same_content_gives_the_same_bytes(deployments):
    deployment = await deployments()
    await stood_still(deployment)
    first = await taken(deployment, "first.zip", partition=deployment.task_queue)
    second = await taken(deployment, "second.zip", partition=deployment.task_queue)
    assert first.manifest == second.manifest
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.sha256 == second.sha256
    await deployment.client.reconcile_now(deployment.id("stuck"))
    third = await taken(deployment, "third.zip", partition=deployment.task_queue)
    assert third.manifest.content != first.manifest.content


async def test_a_whole_snapshot_is_verified_and_whatever_is_changed_in_it_is_found(deployments):
    deployment = await deployments()
    await stood_still(deployment)
    snapshot = await taken(deployment, partition=deployment.task_queue)
    assert snapshot.path.stat().st_mode & 0o777 == 0o600, "readable by its owner alone"
    manifest = check.verify(snapshot.path, on_progress=quiet)
    assert (manifest.counts["effects"], manifest.counts["histories"]) == (2, 2)
    assert len(manifest.files) == 5
    for name in manifest.files:
        broken = tampered(snapshot.path, name, lambda content: content + b"\n")
        with pytest.raises(BrokenSnapshot, match="was changed"):
            check.verify(broken, on_progress=quiet)


async def test_a_rewritten_trail_is_found_although_its_digests_were_made_anew(deployments):
    deployment = await deployments()
    await stood_still(deployment)
    snapshot = await taken(deployment, partition=deployment.task_queue)
    forged = deployment.folder / "forged.zip"
    with Reader.open(snapshot.path) as reader, archive.writing(forged) as writer:
        for name in reader.names():
            content = b"".join(reader.lines(name))
            if name == archive.EFFECTS:
                content = content.replace(b'"move": "doubt"', b'"move": "clear"')
            writer.add(name, content)
        changed = {"files": writer.files, "content": archive.content_digest(writer.files)}
        writer.close(reader.manifest.model_copy(update=changed))
    with pytest.raises(BrokenSnapshot, match=r"audit trail .* is broken at event 2"):
        check.verify(forged, on_progress=quiet)


async def test_no_secret_gets_into_a_snapshot(deployments, monkeypatch):
    monkeypatch.setenv("ASCERTAIN_SECRET_TOKEN", SECRET)
    deployment = await deployments()
    options = deployment.settings["kinds"]["toy.fact"]["options"]
    options["headers"] = {"Authorization": "Bearer secret:TOKEN"}
    deployment.configure()
    await deployment.worker()
    await deployment.submit("told", partition=deployment.task_queue)
    await deployment.result("told")

    async def listed():
        return [
            task.id
            async for task in deployment.client.tasks(f"TaskPartition = '{deployment.task_queue}'")
        ]

    await wait_until(listed)
    snapshot = await taken(deployment, partition=deployment.task_queue)
    with zipfile.ZipFile(snapshot.path) as opened:
        whole = b"".join(opened.read(name) for name in opened.namelist())
    assert deployment.id("told").encode() in whole
    for form in (SECRET.encode(), base64.b64encode(SECRET.encode())):
        assert form not in whole


async def test_a_snapshot_that_cannot_be_written_leaves_nothing_behind(deployments):
    deployment = await deployments()
    with pytest.raises(InvalidSettings, match="No such file or directory"):
        await taken(deployment, "missing/one.zip")
    (deployment.folder / "one.zip").mkdir()
    with pytest.raises(InvalidSettings, match="Is a directory"):
        await taken(deployment)
    assert list(deployment.folder.glob(".*")) == []
