"""A change of rows through a real worker: what becomes of it when the answer to COMMIT is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ascertain.contracts.task import TaskOutcome
from ascertain.testing.fault import DropReply, DropRequest
from ascertain.testing.proxy import FaultProxy
from drill.points import Point
from tests.adapters.test_sql_adapter import POST, Bank, bank_in
from tests.effects.serving import doing, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starter.postgres import EmbeddedPostgres

KIND = "account.post"
STEP = doing(KIND, account="ann", delta="2.50")
OPTIONS = {"url": "secret:BANK_DB", "statements": [POST]}


@pytest.fixture
async def bank(postgres: EmbeddedPostgres) -> AsyncIterator[Bank]:
    async with bank_in(postgres) as bank:
        yield bank


@pytest.mark.parametrize(
    ("fault", "moves"),
    [
        (DropReply("reset"), ["claim", "doubt", "find"]),
        (DropRequest("reset"), ["claim", "doubt", "find_absent", "claim", "settle"]),
    ],
    ids=["committed", "not committed"],
)
async def test_a_lost_answer_to_the_commit_is_found_out_and_the_change_made_once(
    deployments, bank: Bank, fault, moves
):
    deployment = await deployments()
    async with FaultProxy("127.0.0.1", bank.port, protocol="bytes") as cut:
        cut.inject(fault, match=rb"COMMIT", times=1)
        secrets = {"BANK_DB": bank.through(cut.port)}
        await serve(deployment, KIND, "sql", OPTIONS, secrets=secrets)
        effect = await deployment.submit("lost", STEP)
        assert (await deployment.result("lost")).outcome is TaskOutcome.DONE
    assert await deployment.moves(effect) == moves
    assert await bank.balance() == "12.50"


@pytest.mark.parametrize("point", [Point.AFTER_CLAIM, Point.AFTER_ANSWER])
async def test_a_worker_that_dies_leaves_one_change(deployments, bank: Bank, point: Point):
    deployment = await deployments()
    plan, secrets = deployment.plan(point), {"BANK_DB": bank.url}
    worker = await serve(deployment, KIND, "sql", OPTIONS, secrets=secrets, plan=plan)
    await deployment.submit("dies", STEP)
    await worker.process.wait()
    await deployment.worker()
    assert (await deployment.result("dies")).outcome is TaskOutcome.DONE
    assert await bank.balance() == "12.50"
