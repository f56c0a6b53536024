from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from workers.worker import sandbox
from workflows.incident import IncidentWorkflow
from workflows.replay import ReplayWorkflow
from workflows.stream import StreamWorkflow
from workflows.task import TaskWorkflow

RECORDED = sorted(Path(__file__).parent.glob("v*/*.json"))
SCENARIOS = {
    *("smooth", "lost", "undo", "queued", "takeover", "held", "cancelled", "unserved"),
    *("amended", "rest", "taken-back", "replay", "incident-night", "cancelled-first"),
    *("stream", "rated"),
}


def test_every_scenario_of_the_release_is_recorded():
    assert {path.stem for path in RECORDED} == SCENARIOS


every_recording = pytest.mark.parametrize(
    "path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}"
)


def replayer() -> Replayer:
    return Replayer(
        workflows=[TaskWorkflow, ReplayWorkflow, IncidentWorkflow, StreamWorkflow],
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


def payloads(given):
    plain = base64.b64encode(b"json/plain").decode()
    data = base64.b64encode(json.dumps(given).encode()).decode()
    return {"payloads": [{"metadata": {"encoding": plain}, "data": data}]}


def said(payload):
    return json.loads(base64.b64decode(payload["data"]))


async def test_a_tool_that_gives_every_approval_of_an_incident_the_same_id_replays():
    path = Path(__file__).parent / "v0.1" / "incident-night.json"
    history = json.loads(path.read_text())
    approvals = [
        accepted["acceptedRequest"]["input"]["args"]["payloads"]
        for event in history["events"]
        if (accepted := event.get("workflowExecutionUpdateAcceptedEventAttributes"))
        and "step" in said(accepted["acceptedRequest"]["input"]["args"]["payloads"][0])
    ]
    assert len(approvals) == 4
    for each in approvals:
        each[:] = payloads({**said(each[0]), "request_id": "inc-42"})["payloads"]
    await replayer().replay_workflow(WorkflowHistory.from_json(path.stem, history))


def later(told, at):
    """The same, with room for one more event."""
    if isinstance(told, list):
        return [later(one, at) for one in told]
    if not isinstance(told, dict):
        return told
    return {
        key: str(int(value) + 1)
        if key.lower().endswith("eventid") and int(value) >= at
        else later(value, at)
        for key, value in told.items()
    }


async def test_a_replay_whose_other_word_under_a_used_id_did_nothing_replays():
    path = Path(__file__).parent / "v0.1" / "replay.json"
    word = payloads({"operator": "ada", "reason": "recorded", "request_id": "r-1"})
    events = json.loads(path.read_text())["events"]
    accepted = "workflowExecutionUpdateAcceptedEventAttributes"
    (resumed,) = (at for at, event in enumerate(events) if accepted in event)
    events[resumed][accepted]["acceptedRequest"]["input"]["args"] = word
    done = "EVENT_TYPE_ACTIVITY_TASK_COMPLETED"
    at = next(at for at in range(resumed, len(events)) if events[at]["eventType"] == done)
    pause = {
        "eventId": str(at + 1),
        "eventTime": events[at]["eventTime"],
        "eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED",
        "workflowExecutionSignaledEventAttributes": {"signalName": "pause", "input": word},
    }
    told = {"events": [*events[:at], pause, *later(events[at:], at + 1)]}
    await replayer().replay_workflow(WorkflowHistory.from_json(path.stem, json.dumps(told)))
