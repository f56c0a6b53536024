from __future__ import annotations

import re
from pathlib import Path

from ascertain import policy
from ascertain.cli import quarantine
from ascertain.cli.quarantine import NEXT
from ascertain.contracts.effect import Evidence, State
from ascertain.contracts.epoch import RESTORED
from tests.cli.test_tasks import quarantined
from tests.core.rows import row


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


async def test_nothing_that_waits_is_said_in_one_line(deployed):
    answer = await deployed.cli("list", "--quarantined", "--partition", "nothing-here")
    assert answer.out == "Nothing waits for a person.\n"


def test_what_a_restore_put_in_doubt_is_a_group_of_its_own_that_says_so(capsys):
    forgotten = row(State.QUARANTINED, lease_owner=RESTORED, error_class=RESTORED)
    lost = row(State.QUARANTINED, effect_id="ef1-b", error_class="no_lookup")
    said = Evidence(source="answer", rule="answer_lost", detail="left, no complete answer")
    groups = quarantine.causes([forgotten, lost], {"ef1-b": said})
    assert [group.cause.error_class for group in groups] == ["restored", "no_lookup"]
    assert groups[0].document()["answer"] is None
    quarantine.show(groups)
    table = capsys.readouterr().out
    assert re.search(r"1\s+\d+ seconds\s+toy.fact\s+p\s+restored\s+nothing\s+task-1", table)
    assert "restored: The ledger was restored and may have forgotten what was done" in table


def test_every_cause_that_the_policy_names_has_a_safe_next_step():
    source = Path(policy.__file__).read_text("utf-8")
    named = re.findall(r'_(?:quarantine|stop)\((?:row, )?"(\w+)"', source)
    assert len(named) > 5
    assert {*named, RESTORED, "budget", "fact_taken"} <= set(NEXT)
