"""A file made by a program through a real worker that is killed, frozen and cancelled."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from tests.adapters.test_command_adapter import alive, pids_in
from tests.effects.serving import doing, serve
from tests.waiting import wait_until

KIND = "video.transcode"
# Longer than any lease.
MAKES = str(Path(__file__).with_name("makes_later.py"))


def options(tmp_path: Path) -> dict[str, Any]:
    return {
        "program": [sys.executable, MAKES, "{output}", str(tmp_path)],
        "output": "made.mp4",
        "progress": "out_time=(.*)",
        "timeout": 60,
        "publish": {"url": f"file://{tmp_path}/videos", "key": "{effect_id}.mp4"},
    }


def published(tmp_path: Path) -> list[str]:
    folder = tmp_path / "videos"
    return [path.name for path in folder.iterdir()] if folder.exists() else []


async def runs(tmp_path: Path, count: int) -> list[Path]:
    def found() -> list[Path] | None:
        files = sorted(tmp_path.glob("*.run"))
        return files if len(files) >= count else None

    return await wait_until(found, 60)


async def test_work_longer_than_its_lease_publishes_under_a_renewed_one(deployments, tmp_path):
    deployment = await deployments()
    await serve(deployment, KIND, "command", options(tmp_path), policy={"lease": 0.3})
    effect = await deployment.submit("long", doing(KIND))
    await runs(tmp_path, 1)
    await deployment.wait_for_row(effect, lambda row: row.now > row.lease_until)
    (tmp_path / "go").touch()
    assert (await deployment.result("long")).outcome is TaskOutcome.DONE
    assert published(tmp_path) == [f"{effect}.mp4"]
    assert await deployment.moves(effect) == ["claim", "renew", "settle"]


async def test_a_worker_that_is_killed_takes_its_program_along_and_another_one_makes_the_file(
    deployments, tmp_path
):
    deployment = await deployments()
    policy = {"lease": 3, "heartbeat": 3}
    worker = await serve(deployment, KIND, "command", options(tmp_path), policy=policy)
    effect = await deployment.submit("killed", doing(KIND))
    (first,) = await runs(tmp_path, 1)
    pids = await pids_in(first)
    await worker.kill()
    await wait_until(lambda: not any(alive(pid) for pid in pids))
    await deployment.worker()
    await runs(tmp_path, 2)
    (tmp_path / "go").touch()
    assert (await deployment.result("killed")).outcome is TaskOutcome.DONE
    assert published(tmp_path) == [f"{effect}.mp4"]
    assert await deployment.moves(effect) == [
        *("claim", "fence", "find_absent", "claim", "renew", "settle")
    ]


async def test_a_cancelled_task_ends_its_program_and_publishes_nothing(deployments, tmp_path):
    deployment = await deployments()
    await serve(deployment, KIND, "command", options(tmp_path), policy={"heartbeat": 3})
    effect = await deployment.submit("cancelled", doing(KIND))
    (first,) = await runs(tmp_path, 1)
    pids = await pids_in(first)
    await deployment.handle("cancelled").cancel()
    await wait_until(lambda: not any(alive(pid) for pid in pids))
    await deployment.wait_for_row(effect, lambda row: row.state is State.CLEAR)
    assert published(tmp_path) == []
