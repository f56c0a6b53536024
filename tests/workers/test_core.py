"""What the Temporal SDK's core says of a worker."""

from __future__ import annotations

import io
import json
import logging

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from tests.histories.test_replay import RECORDED
from tests.waiting import wait_until
from workers import core
from workers.log import JsonLine
from workers.worker import sandbox
from workflows.task import TaskWorkflow


async def test_what_the_core_warns_of_stands_in_the_log_with_its_run_and_not_on_standard_output(
    capfd,
):
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    handler.setFormatter(JsonLine())
    log = logging.getLogger("temporalio.core")
    log.addHandler(handler)
    (smooth,) = (path for path in RECORDED if path.stem == "smooth")
    history = json.loads(smooth.read_text())
    marker = "EVENT_TYPE_MARKER_RECORDED"
    history["events"] = [each for each in history["events"] if each["eventType"] != marker]
    replayer = Replayer(
        workflows=[TaskWorkflow],
        workflow_runner=sandbox(),
        data_converter=pydantic_data_converter,
        runtime=core.runtime(),
    )
    try:
        with pytest.raises(RuntimeError):
            await replayer.replay_workflow(WorkflowHistory.from_json("smooth", history))
        await wait_until(said.getvalue)
    finally:
        log.removeHandler(handler)
    told = json.loads(said.getvalue().splitlines()[0])
    begun = history["events"][0]["workflowExecutionStartedEventAttributes"]
    assert (told["level"], told["run_id"]) == ("warning", begun["originalExecutionRunId"])
    assert "out of order" in told["message"]
    assert capfd.readouterr().out == ""
