"""A task that waits for long goes on in a new history and forgets nothing."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typing_extensions import override

from ascertain.client import TaskEnded
from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Answer, Drop, LookupKnobs, Rule, SubmitKnobs
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
    assert (await labels(handle))[names.TASK_STATE] == ["HELD"]
    told = [entry.step for entry in (await deployment.client.timeline(handle.id)).entries]
    assert "a" in told
    await deployment.gate("p", paused=False)
    result = await deployment.result("long")
    assert (await labels(handle))[names.TASK_STATE] == ["DONE"]
    assert result.outcome is TaskOutcome.DONE
    assert [done.step for done in result.steps] == ["a", "b"]
    assert [deployment.submits(deployment.effect("long", name)) for name in "ab"] == [1, 1]


async def labels(handle):
    return (await handle.describe()).search_attributes


async def test_a_cancelled_task_continues_as_new_and_stays_cancelled(deployments):
    deployment = await deployments(policy={"ask_cap": 0.05})
    await deployment.worker()
    effect = deployment.effect("doubt")
    deployment.outside.rules.add(Rule(lookup=LookupKnobs(reply=Answer(status=503))))
    deployment.outside.rules.add(Rule(times=1, submit=SubmitKnobs(reply=Drop(how="reset"))))
    await deployment.submit("doubt", step("do", "toy.asked"), step("next", "toy.asked"))
    await deployment.wait_for_row(effect, lambda row: row.state is State.UNKNOWN)
    await deployment.client.cancel(deployment.id("doubt"))
    handle = deployment.handle("doubt")

    async def cancelling():
        return (await deployment.status("doubt")).cancelling

    await wait_until(cancelling)
    begun = (await handle.describe()).run_id

    async def continued():
        return (await handle.describe()).run_id != begun

    await wait_until(continued)
    assert (await deployment.status("doubt")).cancelling
    deployment.outside.rules.clear()
    with pytest.raises(TaskEnded, match="cancelled"):
        await deployment.result("doubt")
    assert (await deployment.row(effect)).state is State.SETTLED
    assert deployment.submits(deployment.effect("doubt", "next")) == 0
