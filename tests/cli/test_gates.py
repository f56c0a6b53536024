from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest

from ascertain.cli.change import stands
from ascertain.contracts.breaker import Rule, Trip
from ascertain.contracts.gate import GateChange
from ascertain.contracts.task import Task
from ascertain.errors import LedgerDown
from ascertain.ledger.gate import turn_of
from ascertain.testing.proxy import FaultProxy
from starter.process import free_port
from tests.cli.test_tasks import listed, quarantined
from tests.ledger.steps import effect, request, unknown
from tests.waiting import wait_until

WEEK = timedelta(days=7)


async def gate(deployed, partition: str):
    return next((g for g in await deployed.ledger.gates() if g.partition == partition), None)


async def known(deployed, partition: str):
    found = (await deployed.cli("partitions", "--json")).document["partitions"]
    return next(item for item in found if item["partition"] == partition)


async def test_a_paused_partition_holds_its_tasks_until_it_is_resumed(deployed):
    ids = [deployed.new_id() for _ in range(3)]
    said = await deployed.cli("pause", "gate-a", "--reason", "incident 7", "--operator", "grace")
    assert "Partition gate-a is paused since" in said.out
    assert "by grace: incident 7." in said.out
    assert "Nothing of it is in flight: it is drained." in said.out
    for task_id in ids:
        await deployed.client.submit(Task(**deployed.task(task_id, partition="gate-a")))

    async def all_held():
        return set(await listed(deployed, "--state", "HELD", "--partition", "gate-a")) == set(ids)

    await wait_until(all_held, what="three held tasks")
    standing = await known(deployed, "gate-a")
    assert (standing["held"], standing["in_flight"], standing["drained"]) == (3, 0, True)
    assert not any(deployed.outside.books.facts_of(deployed.effect_id(task_id)) for task_id in ids)
    told = await deployed.cli("explain", ids[0])
    assert "because its partition gate-a is paused" in told.out
    assert "ascertain resume gate-a" in told.out
    answer = await deployed.cli("resume", "gate-a", "--json")
    assert answer.document["woken"] == 3
    assert answer.document["gate"]["paused"] is False
    for task_id in ids:
        # Far sooner than the 300 s after which a held task would look by itself.
        result = await deployed.cli("result", task_id, "--within", "100s", "--json")
        assert result.document["outcome"] == "DONE"


async def test_a_partition_of_which_no_task_is_known_is_paused_and_said_to_be_unknown(deployed):
    await quarantined(deployed, partition="shop")
    opened = await deployed.cli("resume", "shpo")
    assert "Partition shpo is open since" in opened.out
    assert opened.err.startswith("No task of partition shpo is known; known: ")
    said = await deployed.cli("pause", "shpo", "--reason", "x")
    assert "Partition shpo is paused since" in said.out
    assert said.err.startswith("No task of partition shpo is known; known: ")
    assert "shop" in said.err.split("known: ")[1]
    again = await deployed.cli("pause", "shpo", "--reason", "x", "--json")
    assert (again.document["partition_known"], again.document["gate"]["paused"]) == (False, True)
    meant = await deployed.cli("pause", "shop", "--reason", "x", "--json")
    assert (meant.document["partition_known"], meant.err) == (True, "")
    for name in ("shop", "shpo"):
        assert (await deployed.cli("resume", name)).err == ""


async def test_a_terminal_that_cannot_show_a_character_shows_its_number(deployed):
    answer = await deployed.cli("resume", "gate-g", "--reason", "Ž", PYTHONIOENCODING="ascii")
    assert "by ada: \\u017d." in answer.out


async def test_a_repeated_request_is_already_applied(deployed):
    given = ("--reason", "x", "--request-id", "pause-1", "--json")
    first = await deployed.cli("pause", "gate-b", *given)
    assert first.document["gate"]["already_applied"] is False
    await deployed.cli("resume", "gate-b")
    again = await deployed.cli("pause", "gate-b", *given)
    assert again.document["gate"]["already_applied"] is True
    assert (await gate(deployed, "gate-b")).paused is False


async def test_a_gate_that_is_paused_already_is_said_to_stay_as_it_was(deployed):
    stays = "It was paused already, and stays as it was: Partition gate-k is paused since "
    pause = ("pause", "gate-k", "--reason", "first", "--request-id", "k-1")
    for _ in range(2):
        assert stays not in (await deployed.cli(*pause)).err
    again = await deployed.cli("pause", "gate-k", "--reason", "again", "--operator", "grace")
    assert stays in again.err
    assert "by ada: first. What was said now is not kept." in again.err
    assert (await gate(deployed, "gate-k")).reason == "first"


async def test_a_ramp_of_a_gate_that_is_open_already_is_said_to_be_unused(deployed):
    unused = "The ramp was not used: the gate was open for all already, and stays so."
    ramped = ("resume", "gate-o", "--ramp", "10m")
    assert unused in (await deployed.cli(*ramped)).err.splitlines()
    await deployed.cli("pause", "gate-o", "--reason", "x")
    assert unused not in (await deployed.cli(*ramped, "--request-id", "o-1")).err
    assert unused not in (await deployed.cli(*ramped)).err
    assert unused not in (await deployed.cli(*ramped, "--request-id", "o-1")).err
    await deployed.cli("resume", "gate-o")
    assert unused in (await deployed.cli(*ramped, "--json")).err


async def test_another_command_under_a_used_request_id_is_refused_with_what_that_was_used_for(
    deployed,
):
    await deployed.cli("resume", "gate-s", "--request-id", "s-1")
    given = ("pause", "gate-s", "--reason", "x", "--request-id", "s-1")
    refused = await deployed.cli(*given, code=4)
    assert refused.sentence.startswith(
        "request id s-1 was used for resume of partition gate-s; pause of partition gate-s was not applied"
    )
    assert await gate(deployed, "gate-s") is None


async def test_a_gate_that_could_not_be_moved_says_how_to_give_the_same_request_again(cli):
    nobody = f"postgresql://a:b@127.0.0.1:{free_port()}/x"
    for command in ("pause", "resume"):
        given = (command, "gate-x", "--reason", "x", "--operator", "ada")
        answer = await cli(*given, code=6, ASCERTAIN_LEDGER_URL=nobody)
        assert "nothing is known to be changed: give the same command again" in answer.sentence
        assert re.search(r"with `--request-id cli-\w+`: one id is applied once$", answer.sentence)
        assert "by itself" not in answer.sentence


async def test_a_pause_that_loses_the_ledger_while_it_waits_says_that_the_gate_is_closed(deployed):
    target = urlsplit(deployed.cli.environment["ASCERTAIN_LEDGER_URL"])
    flying = effect("cut-off", partition="gate-q")
    claimed = await deployed.ledger.claim(request("cut-off", effect=flying))
    asked: list[bytes] = []
    where = (target.hostname, target.port)
    async with FaultProxy(*where, protocol="bytes", on_request=asked.append) as proxy:
        url = target._replace(netloc=target.netloc.replace(f":{target.port}", f":{proxy.port}"))
        given = ("pause", "gate-q", "--reason", "x", "--wait", "--request-id", "pause-q")
        waiting = asyncio.create_task(
            deployed.cli(*given, code=6, ASCERTAIN_LEDGER_URL=url.geturl())
        )

        async def closed():
            found = await gate(deployed, "gate-q")
            return found is not None and found.paused

        await wait_until(closed, what="the closed gate")
        before = len(asked)
        await wait_until(lambda: len(asked) > before, what="a look, so the answer has come")
        await proxy.refuse()
        await proxy.cut()
        answer = await waiting
    said = answer.err.splitlines()[-1]
    assert said.startswith("ascertain: partition gate-q is paused since ")
    assert ", by ada: x; what of it is still in flight is not known: the ledger at " in said
    assert said.endswith("with `--request-id pause-q`: one id is applied once")
    assert "nothing" not in said
    await deployed.ledger.record(claimed.lease, unknown())
    await deployed.cli("resume", "gate-q")


async def test_a_gate_that_somebody_moved_since_the_request_is_told_as_it_is(deployed):
    asked = GateChange(partition="gate-m", paused=True, by="ada", reason="x", request_id="pause-m")
    await deployed.ledger.set_gate(asked)
    await deployed.cli("resume", "gate-m", "--reason", "mended", "--operator", "grace")
    now = await deployed.ledger.set_gate(asked)
    with pytest.raises(LedgerDown) as raised, stands(asked, now, "what is in flight is not known"):
        raise LedgerDown("the ledger does not answer")
    said = str(raised.value)
    assert said.startswith("partition gate-m is open since ")
    assert (
        ", by grace: mended; what is in flight is not known: the ledger does not answer. " in said
    )
    assert "again, without `--request-id`: that id was applied before, and somebody moved" in said


async def test_what_is_in_flight_is_told_and_can_be_waited_for(deployed):
    flying = effect("flying", partition="gate-c")
    asked = request("flying", effect=flying, lease=timedelta(seconds=2))
    claimed = await deployed.ledger.claim(asked)
    told = await deployed.cli("pause", "gate-c", "--reason", "x")
    assert "1 attempt is in flight and" in told.out
    standing = await known(deployed, "gate-c")
    assert (standing["in_flight"], standing["drained"]) == (1, False)
    waiting = asyncio.create_task(
        deployed.cli("pause", "gate-c", "--reason", "x", "--wait", "--json")
    )

    async def can_send_no_more():
        row = (await deployed.ledger.inspect(flying.effect_id)).row
        return row.now >= row.lease_until

    await wait_until(can_send_no_more)
    told = await deployed.cli("pause", "gate-c", "--reason", "x")
    assert "1 attempt is in flight and can send no more" in told.out
    assert not waiting.done()
    await deployed.ledger.record(claimed.lease, unknown())
    answer = await waiting
    assert (answer.document["in_flight"], answer.document["drained"]) == ([], True)
    assert (await known(deployed, "gate-c"))["drained"]
    await deployed.cli("resume", "gate-c")


async def test_a_held_task_that_was_ended_from_outside_is_held_no_more(deployed):
    await deployed.cli("pause", "gate-n", "--reason", "x")
    task_id = deployed.new_id()
    await deployed.client.submit(Task(**deployed.task(task_id, partition="gate-n")))

    async def held(count):
        return (await known(deployed, "gate-n"))["held"] == count

    await wait_until(lambda: held(1), what="a held task")
    await deployed.client.temporal.get_workflow_handle(task_id).terminate("by hand")
    await wait_until(lambda: held(0), what="no held task")
    await deployed.cli("resume", "gate-n")


async def test_one_partition_stays_held_while_every_partition_is_paused(deployed):
    try:
        await deployed.cli("pause", "--all", "--reason", "everything")
        await deployed.cli("pause", "gate-d", "--reason", "this one")
        task_id = deployed.new_id()
        await deployed.client.submit(Task(**deployed.task(task_id, partition="gate-d")))

        async def is_held():
            return set(await listed(deployed, "--state", "HELD", "--partition", "gate-d"))

        await wait_until(is_held, what="a held task")
        opened = (await deployed.client.status(task_id)).open
        assert (opened.doing, opened.gate) == ("held", "*")
        told = (await deployed.cli("explain", task_id)).out
        assert "because every partition and its partition gate-d are paused" in told
        answer = await deployed.cli("resume", "gate-d")
        told = (await deployed.cli("explain", task_id)).out
        assert "because every partition is paused." in told
        assert "ascertain resume --all" in told
        assert "ascertain resume gate-d" not in told
        assert "But nothing goes on yet: Every partition is paused since" in answer.out
        document = (await deployed.cli("resume", "gate-d", "--json")).document
        assert [other["partition"] for other in document["still_closed"]] == ["*"]
        assert document["woken"] == 0
    finally:
        await deployed.cli("resume", "--all")
    assert (await gate(deployed, "*")).paused is False
    await deployed.cli("result", task_id, "--within", "100s")


async def test_partitions_tell_gates_and_what_is_unresolved(deployed):
    await quarantined(deployed, partition="gate-e")
    await quarantined(deployed, partition="gate-e")
    await deployed.cli("pause", "gate-f", "--reason", "the provider is down")
    open_yet = await known(deployed, "gate-e")
    assert open_yet["unresolved"]["QUARANTINED"] == 2
    assert open_yet["paused"] is False
    assert (await known(deployed, "gate-f"))["gate"]["reason"] == "the provider is down"
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
        (("pause", "p", "--reason", " "), "Invalid value for '--reason': it is empty"),
        (("resume", "*"), "name one PARTITION, or say --all"),
        (("resume", "a b"), "cannot be the name of a partition"),
        (("resume", "p", "--wake-rate", "0"), "--wake-rate"),
        (("resume", "p", "--ramp", "0s"), "ramp: "),
        (("resume", "p", "--ramp", "8d"), "ramp: "),
        (("resume", "p", "--ramp", "soon"), "is no length of time"),
    ],
)
async def test_a_gate_that_is_named_wrongly_is_refused(deployed, arguments, said):
    assert said in (await deployed.cli(*arguments, code=2)).sentence


async def test_a_gate_cannot_be_moved_without_a_ledger(deployed):
    answer = await deployed.cli("pause", "p", "--reason", "x", code=7, ASCERTAIN_LEDGER_URL=None)
    assert answer.sentence.startswith("no ledger: set ASCERTAIN_LEDGER_URL")


async def test_what_a_rule_closed_is_told_with_its_rule_and_its_numbers(deployed):
    reason = "unknown_share: 6 of 10 attempts within 300 s ended in doubt (60%; limit 30%)"
    closing = Trip(
        partition="gate-i",
        rule=Rule.UNKNOWN_SHARE,
        reason=reason,
        counted_for=timedelta(0),
        probes=3,
        probe_after=timedelta(hours=1),
    )
    assert await deployed.ledger.trip(closing) is not None
    (line,) = [x for x in (await deployed.cli("partitions")).out.splitlines() if "gate-i" in x]
    assert "paused" in line
    assert "breaker" in line
    assert reason in line
    told = (await known(deployed, "gate-i"))["gate"]
    assert (told["rule"], told["probes"], told["probing"]) == ("unknown_share", 3, [])
    task_id = deployed.new_id()
    await deployed.client.submit(Task(**deployed.task(task_id, partition="gate-i")))

    async def is_held():
        return set(await listed(deployed, "--state", "HELD", "--partition", "gate-i"))

    await wait_until(is_held, what="a held task")
    for command in ("explain", "show"):
        assert f"paused by breaker: {reason}" in (await deployed.cli(command, task_id)).out
    said = (await deployed.cli("resume", "gate-i", "--wake-rate", "100")).out
    assert "Partition gate-i is open since " in said
    await deployed.cli("result", task_id, "--within", "100s")


async def test_a_gate_that_opens_little_by_little_says_how_far_it_is_and_when_a_turn_comes(
    deployed,
):
    await deployed.cli("pause", "gate-r", "--reason", "incident 9")
    at = datetime.now(UTC)
    task_id = deployed.new_id()
    while turn_of(deployed.effect_id(task_id), at, at + WEEK) < at + WEEK / 2:
        task_id = deployed.new_id()
    await deployed.client.submit(Task(**deployed.task(task_id, partition="gate-r")))

    async def is_held():
        return set(await listed(deployed, "--state", "HELD", "--partition", "gate-r"))

    await wait_until(is_held, what="a held task")
    document = (await deployed.cli("resume", "gate-r", "--ramp", "7d", "--json")).document
    assert (document["woken"], document["gate"]["position"]) == (1, "opening")

    async def has_a_turn():
        status = await deployed.client.status(task_id)
        return status.open is not None and status.open.turn_at

    turn = await wait_until(has_a_turn, what="the turn")
    opened = await gate(deployed, "gate-r")
    assert turn == turn_of(deployed.effect_id(task_id), opened.since, opened.ramp_until)
    until, own = (f"{at:%Y-%m-%d %H:%M:%S} UTC" for at in (opened.ramp_until, turn))
    said = f"opening until {until}, 0% now"
    shown = (await deployed.cli("show", task_id)).out
    assert f"Held: {said}; this one from {own} on." in shown
    assert (
        "ascertain resume gate-r\n      Nothing needs to be done: it goes on at its turn." in shown
    )
    assert (
        f"waits before step note for its turn at {own}"
        in (await deployed.cli("explain", task_id)).out
    )
    (line,) = [x for x in (await deployed.cli("partitions")).out.splitlines() if "gate-r" in x]
    assert said in line
    told = await known(deployed, "gate-r")
    assert (told["position"], told["paused"]) == ("opening", False)
    assert 0 < told["gate"]["share"] < 0.5
    notice = f"Partition gate-r is {said}, since "
    assert notice in (await deployed.cli("list", "--partition", "gate-r")).out
    assert notice not in (await deployed.cli("list", "--partition", "gate-k")).out
    documents = (await deployed.cli("list", "--limit", "1", "--json")).document["opening"]
    assert "gate-r" in [each["partition"] for each in documents]
    board = (await deployed.cli("top", "gate-r", "--once", "--json")).document
    (line,) = [each for each in board["partitions"] if each["partition"] == "gate-r"]
    assert (line["position"], line["paused"]) == ("opening", False)
    await deployed.cli("pause", "gate-r", "--reason", "again")
    told = (await deployed.cli("explain", task_id)).out
    assert "because its partition gate-r is paused" in told
    assert "paused by ada: again." in told
    assert "opening" not in told
    opened_for_all = (await deployed.cli("resume", "gate-r")).out
    assert "Partition gate-r is open since " in opened_for_all
    await deployed.cli("result", task_id, "--within", "100s")


async def test_a_gate_that_lets_others_probe_is_half_open(deployed):
    closing = Trip(
        partition="gate-o",
        rule=Rule.LAG,
        reason="lag: too late",
        counted_for=timedelta(0),
        probes=1,
        probe_after=timedelta(microseconds=1),
    )
    assert await deployed.ledger.trip(closing) is not None
    told = await known(deployed, "gate-o")
    assert (told["position"], told["paused"]) == ("half-open", True)
    (line,) = [x for x in (await deployed.cli("partitions")).out.splitlines() if "gate-o" in x]
    assert "half-open" in line
    board = (await deployed.cli("top", "gate-o", "--once")).out
    assert re.search(r"gate-o\s+half-open", board)
    metrics = (await deployed.cli("metrics", "--json")).document["metrics"]
    labels = {"partition": "gate-o", "state": "half-open"}
    assert [each["value"] for each in metrics if each["labels"] == labels] == [1]
    await deployed.cli("resume", "gate-o")


async def test_an_outside_that_cannot_be_asked_is_one_notice(deployed):
    doubted = effect("doubted", partition="gate-j")
    claimed = await deployed.ledger.claim(request("doubted", effect=doubted))
    await deployed.ledger.record(claimed.lease, unknown())
    outage = await deployed.ledger.note_outage("gate-j", doubted.kind, "503")
    notice = (
        f"gate-j: toy.fact cannot be asked since {outage.since:%Y-%m-%d %H:%M:%S} UTC; 1 waiting"
    )
    for command in (("partitions",), ("list", "--limit", "1")):
        assert notice in (await deployed.cli(*command)).out
        documents = (await deployed.cli(*command, "--json")).document["outages"]
        assert [each["waiting"] for each in documents if each["partition"] == "gate-j"] == [1]
    assert notice not in (await deployed.cli("list", "--partition", "gate-k")).out
    await deployed.ledger.end_outage("gate-j", doubted.kind)
    assert notice not in (await deployed.cli("partitions")).out


async def test_opening_every_partition_names_those_that_are_paused_by_themselves(deployed):
    await deployed.cli("pause", "gate-h", "--reason", "this one")
    try:
        answer = await deployed.cli("resume", "--all")
        assert answer.out.startswith("The gate of all partitions is open since ")
        assert "But one is paused by itself: Partition gate-h is paused since" in answer.out
        assert re.search(r"held tasks? (was|were) woken", answer.out)
    finally:
        await deployed.cli("resume", "gate-h")
