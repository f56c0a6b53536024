"""A generation through a real worker: paid for once, whatever is lost, unless paying twice is fine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.fault import DropReply
from ascertain.testing.proxy import FaultProxy
from drill.points import Point
from tests.adapters.model_api import model_api
from tests.effects.serving import doing, serve

if TYPE_CHECKING:
    from pathlib import Path

KIND = "text.generate"
STEP = doing(KIND, prompt="a poem")
SECRETS = {"MODEL_KEY": "sk-1"}


def options(url: str, place: Path, **more: Any) -> dict[str, Any]:
    return {
        "base_url": url,
        "api_key": "secret:MODEL_KEY",
        "request": {"model": "m-1", "input": "{input.prompt}"},
        "publish": {"url": f"file://{place}/kept"},
        "timeout": 3,
        **more,
    }


async def test_background_work_survives_a_worker_that_dies_after_it_was_accepted(
    deployments, tmp_path
):
    deployment = await deployments()
    async with model_api(polls=3) as api:
        plan = deployment.plan(Point.AFTER_RECORD)
        worker = await serve(
            deployment,
            KIND,
            "generate",
            options(api.url, tmp_path),
            secrets=SECRETS,
            plan=plan,
            policy={"heartbeat": 1},
        )
        effect = await deployment.submit("dies", STEP)
        await worker.process.wait()
        await deployment.worker()
        result = await deployment.result("dies")
        assert result.outcome is TaskOutcome.DONE
        assert result.steps[0].receipt.body["usage"]["total_tokens"] == 18
        assert len(api.billed) == 1
        assert await deployment.moves(effect) == ["claim", "accept", "find"]
        assert (tmp_path / "kept" / f"{effect}.json").exists()


@pytest.mark.parametrize("harmless", [False, True])
async def test_a_lost_answer_is_paid_for_again_only_where_that_is_declared(
    deployments, tmp_path, harmless
):
    deployment = await deployments()
    async with model_api() as api, FaultProxy("127.0.0.1", api.port) as cut:
        cut.inject(DropReply("reset"), match=rb"^POST", times=1)
        chosen = options(f"{cut.url}/v1", tmp_path, harmless=harmless)
        await serve(deployment, KIND, "generate", chosen, secrets=SECRETS)
        effect = await deployment.submit("lost", STEP)
        if harmless:
            assert (await deployment.result("lost")).outcome is TaskOutcome.DONE
            assert len(api.billed) == 2
            return
        row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
        assert row.error_class == "unknowable"
        assert len(api.billed) == 1
