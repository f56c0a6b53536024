"""What `result` and `wait` tell of a task that has no workflow, because a stream carries it or did."""

from __future__ import annotations

import contextlib
from datetime import timedelta

from ascertain.cli.failure import NOT_DONE, NotOver
from ascertain.contracts.effect import Effect
from ascertain.errors import NotFound
from ascertain.stream import Stream, workflow_id
from ascertain.testing.knob import Answer, Rule, SubmitKnobs
from tests.ledger.steps import request
from tests.waiting import wait_until


async def listed(deployed, stream) -> None:
    """Until a search finds a stream, which is about a second."""
    query = f"WorkflowId = '{workflow_id(stream.name)}'"

    async def found():
        return (await deployed.client.temporal.count_workflows(query)).count

    await wait_until(found, what="a stream that a search finds")


async def test_the_outcome_of_a_task_that_a_stream_carried_is_told_from_the_ledger(deployed):
    task_id, refused = deployed.new_id(), deployed.new_id()
    no = SubmitKnobs(commit="never", reply=Answer(status=402))
    deployed.outside.rules.add(Rule(reference=deployed.effect_id(refused), submit=no))
    file = deployed.file(deployed.task(task_id), deployed.task(refused), name="c.jsonl")
    await deployed.cli("submit", file, "--bulk", deployed.new_id("stream"))
    told = await deployed.cli("result", task_id)
    assert told.out.startswith(f"Task {task_id}: DONE.")
    assert f"Temporal has no workflow of task {task_id}: a stream carried it" in told.err
    (step,) = (await deployed.cli("result", task_id, "--json")).document["steps"]
    assert (step["state"], step["effect_id"]) == ("SETTLED", deployed.effect_id(task_id))
    assert step["receipt"]["external_id"]
    shown = (await deployed.cli("wait", task_id, "--json")).document
    assert (shown["state"], shown["partition"]) == ("DONE", "default")
    await deployed.cli("wait", task_id, "--state", "ABANDONED", code=NOT_DONE)
    told = await deployed.cli("result", refused, code=NOT_DONE)
    assert told.out.startswith(f"Task {refused}: REFUSED.")


COMMANDS = (
    ("takeover", "{}", "take", "--reason", "x", "--yes"),
    ("takeover", "{}", "take", "--reason", "x", "--version", "2"),
    ("reconcile", "{}"),
    ("cancel", "{}"),
)


async def test_a_command_to_a_task_that_a_stream_carried_is_told_what_became_of_it(deployed):
    task_id = deployed.new_id()
    file = deployed.file(deployed.task(task_id), name="c.jsonl")
    await deployed.cli("submit", file, "--bulk", deployed.new_id("stream"))
    for command in COMMANDS:
        told = await deployed.cli(*(word.format(task_id) for word in command), code=4)
        assert told.sentence.startswith(
            f"task {task_id} is DONE, so nothing can be told it any more: a stream carried it"
        )


async def test_what_carries_a_task_without_a_workflow_is_told_while_it_is_not_over(deployed):
    stream, task_id = Stream(deployed.client, deployed.new_id("stream")), deployed.new_id()
    effect = Effect(
        effect_id=deployed.effect_id(task_id),
        task_id=task_id,
        step="note",
        kind="note.create",
        partition="default",
        input={"text": f"for {task_id}"},
    )
    await deployed.ledger.claim(request(effect=effect, lease=timedelta(minutes=5)))
    await stream.open()
    await listed(deployed, stream)
    for command in ("result", "wait"):
        told = await deployed.cli(command, task_id, "--within", "3s", code=NotOver.exit_code)
        assert f"Task {task_id} has no workflow of its own, so a stream that runs is" in told.err
        assert f"`ascertain stream status {stream.name}`" in told.err
    for command in COMMANDS:
        told = await deployed.cli(*(word.format(task_id) for word in command), code=4)
        assert f"task {task_id} has no workflow of its own, so a stream that" in told.sentence
    await stream.close()


async def test_a_task_that_a_stream_may_not_have_come_to_yet_is_not_told_to_be_missing(deployed):
    stream, partition = Stream(deployed.client, deployed.new_id("stream")), deployed.new_id("held")
    task_id = deployed.new_id()
    await deployed.cli("pause", partition, "--reason", "test")
    file = deployed.file(deployed.task(task_id, partition=partition), name="c.jsonl")
    process = await deployed.cli.start("submit", file, "--bulk", stream.name)

    async def held():
        with contextlib.suppress(NotFound):
            return (await stream.progress()).held

    await wait_until(held, what="a stream that is held")
    await listed(deployed, stream)
    for command in ("result", "wait"):
        told = await deployed.cli(command, task_id, "--within", "3s", code=NotFound.exit_code)
        assert "unless a stream that runs has not come to it yet" in told.sentence
    await deployed.cli("resume", partition)
    assert await process.wait() == 0
    assert (await deployed.cli("result", task_id)).out.startswith(f"Task {task_id}: DONE.")
