"""Worker versions: a task that waits goes on with the version that is current by then."""

from __future__ import annotations

import asyncio
import shutil
import sysconfig

import pytest

from ascertain.errors import InvalidSettings
from tests.protocol.deployment import step
from tests.waiting import wait_until
from workers import version

TEMPORAL = shutil.which("temporal", path=sysconfig.get_path("scripts"))


async def made_current(deployment, build):
    """As ``deploy/kubernetes/version.yaml`` does, again until a worker of the version has polled."""
    command = (
        *(TEMPORAL, "worker", "deployment", "set-current-version", "--yes"),
        *("--deployment-name", deployment.task_queue, "--build-id", build),
    )

    async def done() -> bool:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=deployment.variables,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        return await process.wait() == 0

    await wait_until(done, 60, what=f"{build} is current")


async def ran_on(deployment, task_id):
    described = await deployment.handle(task_id).describe()
    told = described.raw_description.workflow_execution_info.versioning_info
    return told.deployment_version.build_id


async def test_a_task_that_waits_goes_on_with_the_next_version_once_that_is_current(
    deployments, monkeypatch
):
    # Its queue is every deployment's of this server, and a version would keep the others from it.
    deployment = await deployments(without=("toy.slow",))
    monkeypatch.setenv(version.NAME, deployment.task_queue)
    monkeypatch.setenv(version.BUILD, "1")
    old = await deployment.worker()
    await made_current(deployment, "1")
    await deployment.gate("eu", paused=True)
    await deployment.submit("waiting", step(), partition="eu")

    async def held() -> bool:
        return (await deployment.status("waiting")).state == "HELD"

    await wait_until(held, what="the gate holds it")
    assert await ran_on(deployment, "waiting") == "1"
    monkeypatch.setenv(version.BUILD, "2")
    await deployment.worker()
    await made_current(deployment, "2")
    assert await old.drain() == 0
    await deployment.gate("eu", paused=False)
    await deployment.hurry("waiting", held=True)
    await deployment.result("waiting")
    assert await ran_on(deployment, "waiting") == "2"
    assert deployment.facts(deployment.effect("waiting")) == 1


def test_half_a_version_is_refused(monkeypatch):
    monkeypatch.setenv(version.NAME, "ascertain")
    with pytest.raises(InvalidSettings, match="set both, or neither"):
        version.deployment_config()
    monkeypatch.setenv(version.NAME, "a.b")
    monkeypatch.setenv(version.BUILD, "1")
    with pytest.raises(InvalidSettings, match="has a dot"):
        version.deployment_config()
