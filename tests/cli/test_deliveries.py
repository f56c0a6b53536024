"""Requests that are repeated are counted, and content that differs is a conflict."""

from __future__ import annotations

from tests.waiting import wait_until


async def test_repeats_are_counted_by_message_and_fate(deployed):
    task = deployed.task(deployed.new_id("again"))
    file = deployed.file(task)
    await deployed.cli("submit", file, "--message-id", "m-1", "--wait")
    told = (await deployed.cli("deliveries", task["task_id"])).out
    assert told.startswith("No further delivery of task ")
    for _ in range(2):
        await deployed.cli("submit", file, "--message-id", "m-1")
    other = deployed.file({**task, "kind": "other"})
    await deployed.cli("submit", other, "--message-id", "m-2", code=3)
    found = (await deployed.cli("deliveries", task["task_id"], "--json")).document["deliveries"]
    assert [(d["message_id"], d["fate"], d["count"]) for d in found] == [
        ("m-1", "duplicate", 2),
        ("m-2", "conflict", 1),
    ]
    assert "conflict" in (await deployed.cli("deliveries", task["task_id"])).out


async def test_a_ledger_that_is_down_makes_no_repeat_fail(deployed):
    task = deployed.task(deployed.new_id("again"))
    file = deployed.file(task)
    await deployed.cli("submit", file, "--wait")
    nobody = "postgresql://a:b@127.0.0.1:1/x"
    answer = await deployed.cli("submit", file, "--json", ASCERTAIN_LEDGER_URL=nobody)
    assert answer.document["fate"] == "duplicate"
    assert "was not counted" in answer.err


async def test_what_another_language_started_without_a_memo_is_compared_too(deployed):
    task = deployed.task(deployed.new_id("foreign"))
    temporal = deployed.client.temporal
    await temporal.start_workflow("Task", task, id=task["task_id"], task_queue="cli")
    assert (await deployed.cli("submit", deployed.file(task), "--json")).document["fate"] == (
        "duplicate"
    )
    other = {**task, "steps": [{**task["steps"][0], "name": "renamed"}]}
    answer = await deployed.cli("submit", deployed.file(other), code=3)
    assert "with other content" in answer.sentence
    await wait_until(lambda: _over(deployed, task["task_id"]), what="the task's end")


async def _over(deployed, task_id):
    return await deployed.client.ended(task_id) == "completed"
