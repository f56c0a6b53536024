"""An operator in the Web UI: find what waits, read what is known, decide by the signal form."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from ascertain.contracts import names
from ascertain.contracts.task import TaskOutcome
from starter.process import free_port
from starter.temporal import TemporalServer
from tests.protocol.chromium import Chromium
from tests.protocol.test_person import quarantined

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

WAITING = "TaskState = 'QUARANTINED'"

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture
async def temporal() -> AsyncGenerator[TemporalServer]:
    """A server of its own, for it serves the Web UI."""
    directory = Path(tempfile.mkdtemp(prefix="ascertain-ui-"))
    async with TemporalServer(directory, in_memory=True, ui_port=free_port()) as server:
        yield server
    shutil.rmtree(directory)


@pytest.fixture
def pictures(tmp_path) -> Path:
    """Where the screenshots go; ``ASCERTAIN_PICTURES=docs/images`` makes those of the docs anew."""
    return Path(os.environ.get("ASCERTAIN_PICTURES") or tmp_path)


async def test_a_person_finds_reads_and_decides_a_quarantined_task_in_the_web_ui(
    deployments, temporal, pictures
):
    deployment = await deployments()
    row = await quarantined(deployment, partition="eur", kind="invoice")
    (fact,) = await deployment.fact_ids(row.effect_id)
    task_id = deployment.id("stuck")
    ui = f"{temporal.ui_url}/namespaces/{temporal.namespace}/workflows"
    async with Chromium() as browser:
        await browser.goto(f"{ui}?query={quote(WAITING)}")
        await browser.wait_for_text(task_id)
        await browser.screenshot(pictures / "web-ui-quarantined.png")
        await browser.reach("a", task_id, shows="User Metadata")
        known = await browser.reach("a[role=tab]", "User Metadata", shows="as signal or update")
        assert row.effect_id in known
        await browser.screenshot(pictures / "web-ui-details.png")
        await browser.click("button", "More Actions")
        await browser.click("[data-testid=signal-button]")
        await browser.click("[data-testid=signal-select-button]")
        await browser.click("[role=option]", names.TAKEOVER)
        await browser.click(".cm-content")
        await browser.wait_for_text("Single JSON")
        await browser.type(json.dumps(confirm(row, fact), indent=2))
        await browser.wait_for_text('"operator": "ada"')
        await browser.screenshot(pictures / "web-ui-signal.png")
        await browser.click("button[data-testid=confirm-modal-button]", "Submit")
        result = await deployment.result("stuck")
        await browser.wait_for_text("COMPLETED")
    assert result.outcome is TaskOutcome.DONE
    (decided,) = [e for e in await deployment.ledger.audit(row.effect_id) if e.actor == "ada"]
    assert (decided.move, decided.evidence.detail) == ("confirm", "ada: seen in the dashboard")
    assert deployment.submits(row.effect_id) == 1


def confirm(row, fact):
    return {
        "action": "confirm",
        "operator": "ada",
        "reason": "seen in the dashboard",
        "version": row.version,
        "effect_id": row.effect_id,
        "receipt": {"external_id": fact},
    }
