from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from workers.worker import sandbox
from workflows.task import TaskWorkflow

RECORDED = sorted(Path(__file__).parent.glob("v*/*.json"))
SCENARIOS = {"smooth", "lost", "undo", "queued", "takeover", "held", "cancelled"}


def test_every_scenario_of_the_release_is_recorded():
    assert {path.stem for path in RECORDED} == SCENARIOS


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}")
async def test_a_recorded_history_replays_on_the_code_of_today(path):
    replayer = Replayer(
        workflows=[TaskWorkflow],
        workflow_runner=sandbox(),
        data_converter=pydantic_data_converter,
    )
    await replayer.replay_workflow(WorkflowHistory.from_json(path.stem, path.read_text()))
