"""A partition through an incident with the Temporal CLI, and nothing of ours on the operator's side."""

from __future__ import annotations

import asyncio
import os
import re
import sysconfig
from pathlib import Path

import asyncpg
import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.contracts.incident import Step
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Drop, Rule, Silence, SubmitKnobs
from tests.protocol.deployment import step
from tests.protocol.kinds import MORTAL
from tests.protocol.test_incident import opened, waits_for
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "plain_temporal.sh"
PAGE = ROOT / "docs" / "how-to" / "plain-temporal.md"
WAITING = "TaskState = 'QUARANTINED'"
LOST = SubmitKnobs(reply=Drop(how="reset"))


def documented() -> list[str]:
    """The queries of the page's table."""
    table = PAGE.read_text("utf-8").partition("## Queries")[2].partition("##")[0]
    found = [
        line.split("`")[1] for line in table.splitlines() if line.startswith("| ") and "`" in line
    ]
    assert len(found) > 5
    return found


async def operated(deployment, temporal, *arguments: str, fails: bool = False) -> str:
    """What the script prints; nothing of this checkout is on its path but the Temporal CLI."""
    environment = {
        "PATH": f"{sysconfig.get_path('scripts')}:{os.defpath}",
        "HOME": str(deployment.folder),
        "TEMPORAL_ADDRESS": temporal.address,
        "TEMPORAL_NAMESPACE": temporal.namespace,
        "TASK_QUEUE": deployment.task_queue,
    }
    process = await asyncio.create_subprocess_exec(
        SCRIPT,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
    )
    out, _ = await process.communicate()
    assert (process.returncode != 0) == fails, out.decode()[-3000:]
    return out.decode()


async def test_one_script_of_plain_temporal_commands_takes_a_partition_through_an_incident(
    deployments, temporal
):
    deployment = await deployments()
    await deployment.worker()
    deployment.outside.rules.add(Rule(times=1, submit=LOST))
    effect = await deployment.submit(
        "stuck", step(kind="toy.neither"), kind="invoice", partition="eur"
    )
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    (fact,) = await deployment.fact_ids(effect)

    async def listed():
        query = "TaskPartition = 'eur' AND TaskState = 'QUARANTINED'"
        found = [task.id async for task in deployment.client.tasks(query)]
        return deployment.id("stuck") in found

    await wait_until(listed)
    for query in documented():
        found = [task.id async for task in deployment.client.tasks(query, limit=1000)]
        if query.startswith(WAITING) and "Since" not in query:
            assert deployment.id("stuck") in found, query
    said = await operated(deployment, temporal, "eur", deployment.id("stuck"), "ada", fact)
    assert deployment.id("stuck") in said
    result = await deployment.result("stuck")
    assert result.outcome is TaskOutcome.DONE
    assert result.steps[0].receipt.external_id == fact
    trail = await deployment.ledger.audit(row.effect_id)
    decided = [(event.move, event.actor) for event in trail if event.actor == "ada"]
    assert decided == [("take", "ada"), ("confirm", "ada")]
    (gate,) = [gate for gate in await deployment.ledger.gates() if gate.partition == "eur"]
    assert (gate.paused, gate.by) == (False, "ada")
    assert gate.reason == "the provider is back, and what had stopped is decided"
    assert deployment.submits(effect) == 1


async def test_the_script_pauses_nothing_for_a_task_that_nobody_knows(deployments, temporal):
    deployment = await deployments()
    await deployment.worker()
    said = await operated(deployment, temporal, "eur", "no-such-task", "ada", "f-1", fails=True)
    assert "== Pause" not in said
    assert await deployment.ledger.gates() == []


async def test_the_script_says_that_a_partition_stays_paused_where_it_ends_early(
    deployments, temporal
):
    deployment = await deployments()
    await deployment.worker()
    effect = await deployment.submit("smooth", step(), partition="eur")
    await deployment.wait_for_row(effect, lambda row: row.state is State.SETTLED)
    await deployment.result("smooth")
    task_id = deployment.id("smooth")
    said = await operated(deployment, temporal, "eur", task_id, "ada", "f-1", fails=True)
    assert "partition eur is paused" in said.splitlines()[-1]
    (gate,) = [gate for gate in await deployment.ledger.gates() if gate.partition == "eur"]
    assert gate.paused


@pytest.mark.parametrize("query", documented())
def test_a_query_finds_tasks_and_no_other_workflow(query):
    assert "WorkflowType = 'Task'" in query or re.search(r"TaskState (=|IN) ", query)


def test_the_page_shows_the_script_that_is_run():
    assert SCRIPT.read_text("utf-8") in PAGE.read_text("utf-8")


async def gate(deployment, name, **content):
    client = deployment.client.temporal
    return await client.execute_workflow(
        names.GATE_WORKFLOW,
        {"partition": "eur", "operator": "ada", "reason": "incident", **content},
        id=f"{deployment.task_queue}-{name}",
        task_queue=deployment.task_queue,
    )


async def test_a_pause_by_workflow_ends_when_nothing_can_be_sent_and_holds_what_comes(deployments):
    deployment = await deployments(policy={**MORTAL, "held_recheck": 300})
    await deployment.worker()
    deployment.outside.rules.add(Rule(times=1, submit=SubmitKnobs(reply=Silence(seconds=2.5))))
    flying = await deployment.submit("flying", step(kind="toy.slow"), partition="eur")
    row = await deployment.wait_for_row(flying, lambda row: row.state is State.IN_FLIGHT)
    answer = await gate(deployment, "pause", paused=True)
    assert answer["may_send_until"] is None
    assert (await deployment.row(flying)).now >= row.lease_until
    held = await deployment.submit("held", step(), partition="eur")

    async def waits():
        return (await deployment.status("held")).state == "HELD"

    await wait_until(waits)
    assert deployment.submits(held) == 0
    await gate(deployment, "resume", paused=False)
    await deployment.client.resume(deployment.id("held"))
    assert (await deployment.result("held")).outcome is TaskOutcome.DONE
    assert (await deployment.result("flying")).outcome is TaskOutcome.DONE


@pytest.mark.parametrize(
    "wrong",
    [{"operator": " "}, {"partition": "a b"}, {"paused": None}, {"until": "tomorrow"}],
    ids=str,
)
async def test_a_gate_request_that_names_nobody_or_nothing_is_refused_with_a_sentence(
    deployments, wrong
):
    deployment = await deployments()
    await deployment.worker()
    with pytest.raises(WorkflowFailureError) as caught:
        await gate(deployment, "wrong", **{"paused": True, **wrong})
    assert "must be a GateRequest: " in str(caught.value.cause)
    assert await deployment.ledger.gates() == []


async def test_a_pause_by_workflow_under_the_id_of_a_resume_fails_and_says_so(deployments):
    deployment = await deployments()
    await deployment.worker()
    await gate(deployment, "resume", paused=False, request_id="s")
    with pytest.raises(WorkflowFailureError) as caught:
        await gate(deployment, "pause", paused=True, request_id="s")
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == names.COMMAND_REFUSED
    assert "request id s was used for resume of partition eur" in caught.value.cause.message
    assert await deployment.ledger.gates() == []


async def test_a_pause_by_workflow_ends_whatever_the_ledgers_clock_says(deployments):
    deployment = await deployments(policy=MORTAL)
    connection = await asyncpg.connect(deployment.ledger_url)
    await connection.execute(
        "create or replace function ascertain.clock() returns timestamptz language sql volatile "
        "as $$select clock_timestamp() + interval '1 hour'$$"
    )
    await connection.close()
    await deployment.worker()
    deployment.outside.rules.add(Rule(times=1, submit=SubmitKnobs(reply=Silence(seconds=2.5))))
    flying = await deployment.submit("flying", step(kind="toy.slow"), partition="eur")
    row = await deployment.wait_for_row(flying, lambda row: row.state is State.IN_FLIGHT)
    assert (await gate(deployment, "pause", paused=True))["may_send_until"] is None
    assert (await deployment.row(flying)).now >= row.lease_until


async def told(temporal, incident_id, step_name):
    """What ``temporal`` says, and its exit code, when it approves a step."""
    word = f'{{"step": "{step_name}", "operator": "ada", "reason": "go"}}'
    process = await asyncio.create_subprocess_exec(
        Path(sysconfig.get_path("scripts")) / "temporal",
        *("workflow", "update", "execute", "--workflow-id", incident_id, "--name", names.APPROVE),
        *("--input", word, "--address", temporal.address, "--namespace", temporal.namespace),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode, out.decode()


async def test_an_approval_that_is_not_applied_fails_with_the_temporal_cli_and_a_repeat_does_not(
    deployments, temporal
):
    deployment = await deployments()
    await deployment.worker()
    incident_id = await opened(deployment)
    await waits_for(deployment, incident_id, Step.SNAPSHOT)
    code, said = await told(temporal, incident_id, Step.RESUME)
    assert code != 0
    assert "the next step is snapshot, not resume: the order cannot be skipped" in said
    for _ in range(2):
        code, said = await told(temporal, incident_id, Step.SNAPSHOT)
        assert code == 0, said
    await waits_for(deployment, incident_id, Step.RECONCILE)
