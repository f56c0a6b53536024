from __future__ import annotations

import pytest

from ascertain.client import TaskEnded
from ascertain.contracts.effect import State
from tests.protocol.deployment import SETTLED, step


async def test_a_task_that_is_cancelled_before_a_worker_takes_it_sends_nothing(deployments):
    deployment = await deployments()
    task = deployment.task("early", step("a"), step("b"))
    await deployment.client.submit(task)
    await deployment.client.cancel(task["task_id"])
    await deployment.worker()
    with pytest.raises(TaskEnded, match="cancelled"):
        await deployment.client.result(task["task_id"], within=SETTLED)
    assert [row.state for row in await deployment.rows()] == [State.ABANDONED]
    assert len(deployment.outside.books.submits) == 0
