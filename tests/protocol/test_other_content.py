"""One task_id, one content: while it runs, once it is closed, and long after Temporal has forgotten it."""

from __future__ import annotations

import pytest

from ascertain.errors import Conflict
from tests.protocol.deployment import step


async def test_a_forgotten_task_is_compared_by_the_ledger_however_its_steps_are_named(deployments):
    deployment = await deployments()
    await deployment.worker()
    effect = await deployment.submit("a")
    await deployment.result("a")
    with pytest.raises(Conflict):
        await deployment.submit("a", step(name="renamed"))
    await deployment.forget("a")
    await deployment.submit("a", step(name="renamed"))  # nobody who could be asked knows better
    with pytest.raises(Conflict, match="other content"):
        await deployment.result("a")
    assert deployment.facts(effect) == 1
    assert deployment.submits(deployment.effect("a", "renamed")) == 0
