from __future__ import annotations

from collections import Counter
from dataclasses import replace

from drill.chaos.plan import Blow, Errand, draw
from drill.chaos.report import judge
from drill.kind import OutsideClass, Route
from drill.trouble import Trouble
from tests.drill.traces import Night
from tests.ledger import steps

PLAN = draw(1, 10)
ERRAND = Errand(
    at_s=0,
    number=1,
    outside=OutsideClass.ASKED,
    route=Route.INLINE,
    partition="p",
    troubles=(Trouble.DONE_RESET, Trouble.UNDONE_RESET),
    lookups_down=2,
)


async def known():
    return await Night().settled(effect=steps.effect(message_id="message-1"))


def report(*traces, complaints=()):
    return judge(
        PLAN,
        [(ERRAND, trace, 1) for trace in traces],
        blows=Counter({Blow.WORKER_KILLED: 3}),
        decided=4,
        by_hand=1,
        complaints=complaints,
    )


async def test_a_run_in_which_all_came_right_is_one():
    told = report(await known())
    assert told.ok
    assert (told.duplicates, told.lost, told.effects) == (0, 0, 1)


async def test_only_faults_that_were_met_are_counted():
    told = report(await known())
    assert told.faults == {
        "done, connection reset": 1,
        "lookup answered 503": 1,
        "worker killed": 3,
    }
    assert told.injected == 5


async def test_a_task_with_two_facts_is_a_duplicate_and_spoils_the_run():
    trace = await known()
    told = report(replace(trace, facts=trace.facts * 2))
    assert (told.duplicates, told.ok) == (1, False)


async def test_an_acknowledged_task_without_a_fact_or_without_a_record_is_lost():
    trace = await known()
    told = report(replace(trace, facts=()), replace(trace, row=None))
    assert (told.lost, told.ok) == (2, False)


async def test_any_other_complaint_spoils_the_run_too():
    assert not report(await known(), complaints=["not everything came to its end"]).ok


async def test_the_document_says_what_the_lines_say():
    told = report(await known())
    document = told.document()
    assert document["faults_injected"] == 5
    assert "duplicates: 0" in "\n".join(told.lines())
    assert document["ok"] is True
