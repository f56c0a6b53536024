"""A task that waits for long goes on in a new history and forgets nothing."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typing_extensions import override

from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Answer, SubmitKnobs
from starter.temporal import TemporalServer
from tests.protocol.deployment import step
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence


class ShortHistories(TemporalServer):
    """A server that suggests to continue as new after a few events."""

    @override
    def _command(self) -> Sequence[str]:
        limit = "limit.historyCount.suggestContinueAsNew=30"
        return (*super()._command(), "--dynamic-config-value", limit)


@pytest.fixture
async def temporal() -> AsyncGenerator[TemporalServer]:
    directory = Path(tempfile.mkdtemp(prefix="ascertain-short-"))
    async with ShortHistories(directory, in_memory=True) as server:
        yield server
    shutil.rmtree(directory)


async def test_a_held_task_continues_as_new_and_keeps_what_was_done(deployments):
    deployment = await deployments(policy={"held_recheck": 0.05})
    await deployment.worker()
    settled = deployment.effect("long", "a")
    answer = SubmitKnobs(reply=Answer(after_s=0.5))
    deployment.meet(answer, key=settled)
    await deployment.submit("long", step("a"), step("b"), partition="p")
    await deployment.outside.books.wait_for("submit", key=settled)
    await deployment.gate("p", paused=True)
    handle = deployment.handle("long")
    begun = (await handle.describe()).run_id

    async def continued():
        return (await handle.describe()).run_id != begun

    await wait_until(continued)
    await deployment.gate("p", paused=False)
    result = await deployment.result("long")
    assert result.outcome is TaskOutcome.DONE
    assert [done.step for done in result.steps] == ["a", "b"]
    assert [deployment.submits(deployment.effect("long", name)) for name in "ab"] == [1, 1]
