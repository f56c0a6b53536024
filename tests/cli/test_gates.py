from __future__ import annotations

import pytest

from ascertain.contracts.task import Task
from ascertain.testing.knob import Rule, SubmitKnobs
from tests.cli.test_tasks import listed, quarantined
from tests.waiting import wait_until


async def gate(deployed, partition: str):
    return next((g for g in await deployed.ledger.gates() if g.partition == partition), None)


async def test_a_paused_partition_holds_its_tasks_until_it_is_resumed(deployed):
    ids = [deployed.new_id() for _ in range(3)]
    said = await deployed.cli("pause", "gate-a", "--reason", "incident 7", "--operator", "grace")
    assert "Partition gate-a is paused since" in said.out
    assert "by grace: incident 7." in said.out
    assert "No attempt of it can send now." in said.out
    for task_id in ids:
        await deployed.client.submit(Task(**deployed.task(task_id, partition="gate-a")))

    async def all_held():
        return set(await listed(deployed, "--state", "HELD", "--partition", "gate-a")) == set(ids)

    await wait_until(all_held, what="three held tasks")
    assert not any(deployed.outside.books.facts_of(deployed.effect_id(task_id)) for task_id in ids)
    told = await deployed.cli("explain", ids[0])
    assert "because its partition gate-a is paused" in told.out
    assert "ascertain resume gate-a" in told.out
    answer = await deployed.cli("resume", "gate-a", "--json")
    assert answer.document["woken"] == 3
    assert answer.document["gate"]["paused"] is False
    for task_id in ids:
        # Far sooner than the 300 s after which a held task would look by itself.
        result = await deployed.cli("result", task_id, "--within", "30s", "--json")
        assert result.document["outcome"] == "DONE"


async def test_a_repeated_request_is_already_applied(deployed):
    given = ("--reason", "x", "--request-id", "pause-1", "--json")
    first = await deployed.cli("pause", "gate-b", *given)
    assert first.document["gate"]["already_applied"] is False
    await deployed.cli("resume", "gate-b")
    again = await deployed.cli("pause", "gate-b", *given)
    assert again.document["gate"]["already_applied"] is True
    assert (await gate(deployed, "gate-b")).paused is False


async def test_what_is_in_flight_is_told_and_can_be_waited_for(deployed):
    task_id = deployed.new_id()
    slow = SubmitKnobs.model_validate({"reply": {"kind": "silence", "seconds": 30}})
    deployed.outside.rules.add(Rule(reference=deployed.effect_id(task_id), submit=slow))
    await deployed.client.submit(Task(**deployed.task(task_id, partition="gate-c")))
    await wait_until(
        lambda: deployed.outside.books.count("submit", reference=deployed.effect_id(task_id)),
        what="the request outside",
    )
    answer = await deployed.cli("pause", "gate-c", "--reason", "x", "--wait")
    assert "No attempt of it can send now." in answer.out
    await deployed.cli("resume", "gate-c")


async def test_one_partition_stays_held_while_every_partition_is_paused(deployed):
    try:
        await deployed.cli("pause", "--all", "--reason", "everything")
        await deployed.cli("pause", "gate-d", "--reason", "this one")
        answer = await deployed.cli("resume", "gate-d")
        assert "But nothing goes on yet: Every partition is paused since" in answer.out
        document = (await deployed.cli("resume", "gate-d", "--json")).document
        assert [other["partition"] for other in document["still_closed"]] == ["*"]
    finally:
        await deployed.cli("resume", "--all")
    assert (await gate(deployed, "*")).paused is False


async def test_partitions_tell_gates_and_what_is_unresolved(deployed):
    await quarantined(deployed, partition="gate-e")
    await quarantined(deployed, partition="gate-e")
    await deployed.cli("pause", "gate-f", "--reason", "the provider is down")
    found = (await deployed.cli("partitions", "--json")).document
    assert found["complete"] is True
    known = {item["partition"]: item for item in found["partitions"]}
    assert known["gate-e"]["unresolved"]["QUARANTINED"] == 2
    assert known["gate-e"]["paused"] is False
    assert known["gate-f"]["gate"]["reason"] == "the provider is down"
    table = (await deployed.cli("partitions")).out
    (line,) = [line for line in table.splitlines() if line.startswith("gate-f")]
    assert "paused" in line
    assert "ada" in line
    await deployed.cli("resume", "gate-f")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pause", "--reason", "x"), "name one PARTITION, or say --all"),
        (("pause", "p", "--all", "--reason", "x"), "name one PARTITION, or say --all"),
        (("pause", "p"), "Missing option '--reason'"),
        (("pause", "p", "--reason", " "), "--reason must say something"),
        (("resume", "*"), "name one PARTITION, or say --all"),
        (("resume", "a b"), "cannot be the name of a partition"),
        (("resume", "p", "--rate", "0"), "--rate"),
    ],
)
async def test_a_gate_that_is_named_wrongly_is_refused(deployed, arguments, said):
    assert said in (await deployed.cli(*arguments, code=2)).sentence


async def test_a_gate_cannot_be_moved_without_a_ledger(deployed):
    answer = await deployed.cli("pause", "p", "--reason", "x", code=7, ASCERTAIN_LEDGER_URL=None)
    assert answer.sentence.startswith("no ledger: set ASCERTAIN_LEDGER_URL")
