"""An object through a real worker: what becomes of it when the store's answer is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.fault import DropReply, DropRequest
from ascertain.testing.proxy import FaultProxy
from drill.points import Point
from tests.adapters.object_store import IDS, ObjectStore, object_store
from tests.effects.serving import doing, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KIND = "report.publish"
STEP = doing(KIND, json={"total": 7})


@pytest.fixture(scope="module")
async def store() -> AsyncIterator[ObjectStore]:
    async with object_store() as store:
        yield store


async def serving(deployment, options: dict[str, Any], plan: Any = None) -> Any:
    return await serve(
        deployment,
        KIND,
        "object",
        {**options, "key": "{effect_id}.json"},
        secrets=IDS,
        plan=plan,
    )


async def test_a_lost_answer_is_found_by_its_name_and_digest(deployments, store: ObjectStore):
    deployment = await deployments()
    async with FaultProxy("127.0.0.1", store.port) as cut:
        puts = cut.inject(DropReply("reset"), match=rb"^PUT", times=None)
        await serving(deployment, store.options(cut.port))
        effect = await deployment.submit("lost", STEP)
        result = await deployment.result("lost")
        assert result.outcome is TaskOutcome.DONE
        assert result.steps[0].receipt.external_id == f"{effect}.json"
        assert await deployment.moves(effect) == ["claim", "doubt", "find"]
        assert puts.fired == 1


async def test_a_request_that_never_arrived_is_proved_absent_and_put_once_more(
    deployments, store: ObjectStore
):
    deployment = await deployments()
    async with FaultProxy("127.0.0.1", store.port) as cut:
        cut.inject(DropRequest("reset"), match=rb"^PUT", times=1)
        await serving(deployment, store.options(cut.port))
        effect = await deployment.submit("absent", STEP)
        assert (await deployment.result("absent")).outcome is TaskOutcome.DONE
        assert await deployment.moves(effect) == [
            *("claim", "doubt", "find_absent", "claim", "settle")
        ]


async def test_another_object_of_that_name_goes_to_a_person_with_both_digests(
    deployments, store: ObjectStore
):
    deployment = await deployments()
    await serving(deployment, store.options())
    effect = deployment.effect("taken")
    await store.write(f"{effect}.json", b"somebody else's")
    await deployment.submit("taken", STEP)
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    assert row.error_class == "differs"
    assert row.evidence.body["expected"]["sha256"] != row.evidence.body["found"]["sha256"]
    assert (await store.read(f"{effect}.json")).content == b"somebody else's"


async def test_a_worker_that_dies_with_the_answer_in_hand_leaves_one_object(deployments, tmp_path):
    deployment = await deployments()
    options = {"url": f"file://{tmp_path}/objects"}
    worker = await serving(deployment, options, deployment.plan(Point.AFTER_ANSWER))
    effect = await deployment.submit("dies", STEP)
    await worker.process.wait()
    await deployment.worker()
    assert (await deployment.result("dies")).outcome is TaskOutcome.DONE
    assert await deployment.moves(effect) == ["claim", "fence", "find"]
    assert [path.name for path in (tmp_path / "objects").iterdir()] == [f"{effect}.json"]
