from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ascertain import policy
from ascertain.cli import quarantine
from ascertain.cli.quarantine import NEXT
from ascertain.contracts.epoch import RESTORED
from ascertain.ports import Waiting
from tests.cli.test_tasks import quarantined
from tests.waiting import wait_until


async def test_what_waits_is_listed_by_its_cause_with_count_age_and_the_safe_next_step(deployed):
    tasks = [await quarantined(deployed, partition="causes") for _ in range(2)]
    answer = await deployed.cli("list", "--quarantined", "--partition", "causes", "--json")
    (group,) = answer.document["groups"]
    assert (group["kind"], group["error_class"]) == ("note.blind", "no_lookup")
    assert group["count"] == 2
    assert group["oldest_age_seconds"] >= 0
    assert group["examples"] == tasks
    assert "left, no complete answer" in group["answer"]
    assert group["safe_next"] == NEXT["no_lookup"]
    table = await deployed.cli("list", "--quarantined", "--partition", "causes")
    assert NEXT["no_lookup"] in table.out
    assert tasks[0] in table.out
    assert tasks[1] not in table.out


async def test_a_limit_is_one_of_causes_and_what_is_left_out_is_said(deployed):
    waiting = [
        await quarantined(deployed, kind, partition="few")
        for kind in ("note.blind", "note.watched", "note.watched")
    ]
    asked = ("list", "--quarantined", "--partition", "few", "--limit", "1")
    table = await deployed.cli(*asked)
    assert len([line for line in table.out.splitlines() if " few " in line]) == 1
    assert table.err == "1 more cause is not shown: raise --limit.\n"

    async def of_kind():  # a search lags
        found = (await deployed.cli(*asked, "--kind", "greeting", "--json")).document
        assert (len(found["groups"]), len(found["tasks"])) == (1, 1)
        return found["groups"][0]["count"] == 2

    await wait_until(of_kind, what="a cause that counts all tasks of the kind")
    whole = await deployed.cli(*asked[:-1], "2", "--json")
    assert sum(group["count"] for group in whole.document["groups"]) == len(waiting)
    assert whole.err == ""


async def test_nothing_that_waits_is_said_in_one_line(deployed):
    answer = await deployed.cli("list", "--quarantined", "--partition", "nothing-here")
    assert answer.out == "Nothing waits for a person.\n"


async def test_what_a_person_has_taken_over_is_counted_beside_what_waits(deployed):
    task_id = await quarantined(deployed, partition="taken")

    async def taken():
        answer = await deployed.cli.start(
            "takeover", task_id, "take", "--reason", "on it", "--operator", "grace", "--yes"
        )
        await answer.communicate()
        return answer.returncode == 0

    await wait_until(taken, what="the end of what was in flight")
    asked = ("list", "--quarantined", "--partition", "taken")
    told = (await deployed.cli(*asked)).out
    assert "Nothing waits" not in told
    assert "1 effect is in a person's hands: `ascertain list --state TAKEN_OVER`" in told
    answer = await deployed.cli(*asked, "--json")
    assert (answer.document["groups"], answer.document["taken_over"]) == ([], 1)
    shown = await deployed.cli("explain", task_id)
    assert re.search(rf'takeover {task_id} release .* --reason "WHY" --operator grace\n', shown.out)


def test_what_a_restore_put_in_doubt_is_a_group_of_its_own_that_says_so(capsys):
    age = timedelta(seconds=12)
    group = Waiting("toy.fact", "p", RESTORED, "", 1, datetime.now(UTC) - age, age, ("task-1",))
    assert quarantine.document(group)["answer"] is None
    quarantine.show([group])
    table = capsys.readouterr().out
    assert re.search(r"1\s+12 seconds\s+toy.fact\s+p\s+restored\s+no answer came\s+task-1", table)
    assert "restored: The ledger was restored and may have forgotten what was done" in table


def test_what_is_safe_next_names_commands_as_this_reader_types_them(monkeypatch):
    group = Waiting("toy.fact", "p", "budget", "", 1, datetime.now(UTC), timedelta(0), ("task-1",))
    monkeypatch.setenv("ASCERTAIN_COMMAND", "./run")
    assert "if `./run explain` says" in quarantine.document(group)["safe_next"]


def test_every_cause_that_the_policy_names_has_a_safe_next_step():
    source = Path(policy.__file__).read_text("utf-8")
    named = re.findall(r'_(?:quarantine|stop)\((?:row, )?"(\w+)"', source)
    assert len(named) > 5
    assert {*named, RESTORED, "budget", "fact_taken"} <= set(NEXT)
