"""What a worker writes about its effects."""

from __future__ import annotations

import ast
import asyncio
import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext
from temporalio.testing import ActivityEnvironment

from ascertain.contracts.effect import State
from ascertain.ledger.model import ModelLedger
from tests.ledger.steps import LEASE, granted, moved, receipt, settled, unknown, verdict
from workers.log import IDS, JsonLine
from workers.metered import metered

WORKFLOWS = Path(__file__).parents[2] / "workflows"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLine())
    log = logging.getLogger("ascertain")
    before, log.level = log.level, logging.INFO
    log.addHandler(handler)
    yield stream
    log.removeHandler(handler)
    log.setLevel(before)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.fixture
def clock():
    class Clock:
        now = datetime(2026, 1, 1, 12, tzinfo=UTC)

        def __call__(self) -> datetime:
            return self.now

    return Clock()


async def test_a_smooth_effect_writes_no_line(written, clock):
    ledger = metered(ModelLedger(clock))
    await moved(ledger.record(await granted(ledger), settled()))
    assert lines(written) == []


async def test_an_effect_that_is_in_doubt_is_told_with_all_its_ids_and_what_became_of_it(
    written, clock
):
    ledger = metered(ModelLedger(clock))
    lease = await granted(ledger, trace_id="ab" * 16)
    row = await moved(ledger.record(lease, unknown()))
    found = verdict(State.SETTLED, receipt=receipt())
    await moved(ledger.converge(row.effect_id, row.version, found, "reconcile"))
    doubt, end = lines(written)
    assert (doubt["level"], doubt["state"], end["level"], end["state"]) == (
        *("warning", "UNKNOWN"),
        *("info", "SETTLED"),
    )
    told = {name: doubt[name] for name in IDS if name != "message_id"}
    assert told == {
        "task_id": "task-1",
        "effect_id": "ef1-1",
        "kind": "toy.fact",
        "partition": "p",
        "state": "UNKNOWN",
        "attempt": 1,
        "lease_owner": "worker/1",
        "lease_version": 1,
        "error_class": "reset",
        "rule": "status",
        "trace_id": "ab" * 16,
    }
    assert doubt["message"] == "ef1-1 of task task-1 is UNKNOWN: status"


async def test_what_comes_too_late_is_told_as_such(written, clock):
    ledger = metered(ModelLedger(clock))
    lease = await granted(ledger)
    clock.now += 3 * LEASE
    await ledger.fence("ef1-1", 1, "sweep")
    await ledger.record(lease, settled())
    (late,) = lines(written)
    assert (late["level"], late["task_id"], late["lease_version"]) == ("warning", "task-1", 2)
    assert "came under an old lease and changed nothing; it is UNKNOWN" in str(late["message"])


def test_an_error_is_kept_in_the_one_line_that_tells_of_it(written):
    try:
        int("over\ntwo lines")
    except ValueError:
        logging.getLogger("ascertain.x").exception("it failed")
    (line,) = lines(written)
    assert line["message"] == "it failed"
    assert "two lines" in str(line["error"])


def test_a_line_of_an_activity_carries_its_task_and_its_trace_whoever_writes_it(written):
    span = NonRecordingSpan(SpanContext(0xAB, 0xCD, is_remote=False))
    with trace.use_span(span):
        ActivityEnvironment().run(logging.getLogger("ascertain.x").warning, "slow")
    (line,) = lines(written)
    info = ActivityEnvironment.default_info()
    assert (line["task_id"], line["activity"]) == (info.workflow_id, info.activity_type)
    assert line["trace_id"] == f"{0xAB:032x}"


def test_a_line_of_a_workflow_carries_its_task(written):
    ids = {"workflow_id": "task-9", "run_id": "run-9"}
    logging.getLogger("ascertain.x").warning("refused", extra={"temporal_workflow": ids})
    (line,) = lines(written)
    assert (line["task_id"], line["run_id"]) == ("task-9", "run-9")


@pytest.mark.parametrize("file", sorted(WORKFLOWS.glob("*.py")), ids=lambda file: file.stem)
def test_a_workflow_writes_only_by_the_logger_that_is_silent_on_replay(file):
    tree = ast.parse(file.read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not imported & {"logging", "sys"}
    assert "print" not in called


async def test_a_line_of_a_connection_is_not_of_the_activity_that_opened_it(written):
    """Callbacks of a connection run in the context in which it was opened, for as long as it lives."""
    log = logging.getLogger("ascertain.test")
    done = asyncio.Event()

    def later() -> None:
        log.warning("it was cut")
        done.set()

    async def opens() -> None:
        log.warning("it is needed")
        asyncio.get_running_loop().call_soon(later)

    environment = ActivityEnvironment()
    await environment.run(opens)
    await done.wait()
    needed, cut = lines(written)
    assert needed["task_id"] == environment.info.workflow_id
    assert "task_id" not in cut
