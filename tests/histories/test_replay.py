from __future__ import annotations

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from workers.worker import sandbox
from workflows.incident import IncidentWorkflow
from workflows.replay import ReplayWorkflow
from workflows.task import TaskWorkflow

RECORDED = sorted(Path(__file__).parent.glob("v*/*.json"))
SCENARIOS = {
    *("smooth", "lost", "undo", "queued", "takeover", "held", "cancelled", "unserved"),
    *("amended", "rest", "taken-back", "replay", "incident-night", "cancelled-first"),
}


def test_every_scenario_of_the_release_is_recorded():
    assert {path.stem for path in RECORDED} == SCENARIOS


every_recording = pytest.mark.parametrize(
    "path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}"
)


def replayer() -> Replayer:
    return Replayer(
        workflows=[TaskWorkflow, ReplayWorkflow, IncidentWorkflow],
        workflow_runner=sandbox(),
        data_converter=pydantic_data_converter,
        namespace="default",  # effects are named by it, and persons name effects
    )


@every_recording
async def test_a_recorded_history_replays_on_the_code_of_today(path):
    await replayer().replay_workflow(WorkflowHistory.from_json(path.stem, path.read_text()))


@every_recording
async def test_a_recorded_history_replays_under_another_run_id_as_after_a_reset(path):
    history = json.loads(path.read_text())
    begun = history["events"][0]["workflowExecutionStartedEventAttributes"]
    begun["originalExecutionRunId"] = "01890000-0000-7000-8000-000000000000"
    assert begun["firstExecutionRunId"] != begun["originalExecutionRunId"]
    await replayer().replay_workflow(WorkflowHistory.from_json(path.stem, history))


@every_recording
async def test_a_worker_can_let_go_of_a_task_wherever_it_waits(path):
    events = json.loads(path.read_text())["events"]
    waits = [
        at
        for at, event in enumerate(events)
        if at > 1 and event["eventType"] == "EVENT_TYPE_WORKFLOW_TASK_SCHEDULED"
    ]
    for at in waits:
        begun = json.dumps({"events": events[:at]})
        await replayer().replay_workflow(WorkflowHistory.from_json(path.stem, begun))
