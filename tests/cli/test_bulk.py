from __future__ import annotations

from ascertain.ports import EffectFilter


async def test_a_file_of_small_tasks_is_carried_in_one_stream_and_adds_up(deployed):
    ids = [deployed.new_id() for _ in range(7)]
    file = deployed.file(*(deployed.task(task_id) for task_id in ids), name="campaign.jsonl")
    name = deployed.new_id()
    told = await deployed.cli("submit", file, "--bulk", name, "--chunk", "3", "--json")
    assert told.document["tally"] == {
        "tasks": 7,
        "settled": 7,
        "refused": 0,
        "handed_over": 0,
        "conflicting": 0,
    }
    facts = [deployed.outside.books.facts_of(deployed.effect_id(task_id)) for task_id in ids]
    assert [len(found) for found in facts] == [1] * 7
    shown = await deployed.cli("stream", "status", name)
    assert f"Stream {name}: 7 tasks, 7 settled" in shown.out


async def test_a_smooth_task_of_a_stream_can_be_explained(deployed):
    task_id = deployed.new_id()
    file = deployed.file(deployed.task(task_id), name="one.jsonl")
    await deployed.cli("submit", file, "--bulk", deployed.new_id())
    shown = await deployed.cli("explain", task_id)
    assert "SETTLED" in shown.out or "exists" in shown.out


async def test_a_line_that_is_no_task_is_told_and_the_others_are_carried(deployed):
    task_id, bad = deployed.new_id(), deployed.new_id()
    wrong = deployed.task(bad, kind="no.such")
    file = deployed.file(deployed.task(task_id), "{", wrong, name="lines.jsonl")
    told = await deployed.cli("submit", file, "--bulk", deployed.new_id(), "--json", code=2)
    assert told.document["tally"]["settled"] == 1
    assert told.document["refused_lines"] == 2
    assert "line 2: refused" in told.err
    assert "no such kind of effect" in told.err
    assert not await deployed.ledger.effects(EffectFilter(task_id=bad))


async def test_a_closed_stream_takes_no_other_tasks(deployed):
    name = deployed.new_id()
    file = deployed.file(deployed.task(deployed.new_id()), name="a.jsonl")
    await deployed.cli("submit", file, "--bulk", name)
    again = await deployed.cli("submit", file, "--bulk", name, code=3)
    assert f"stream {name!r} is closed" in again.sentence


async def test_a_stream_that_nobody_opened_cannot_be_paused(deployed):
    unknown = await deployed.cli("stream", "pause", "nobody-opened-this", code=5)
    assert "nobody-opened-this" in unknown.sentence
