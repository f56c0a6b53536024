from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
import signal

import pytest

from ascertain.cli import failure
from ascertain.door import admit
from ascertain.errors import Conflict, NotFound
from ascertain.keys import task_fingerprint
from ascertain.ports import EffectFilter
from ascertain.stream import Stream
from tests.waiting import wait_until


def content_of(tasks):
    """The fingerprint that a stream of these is opened with."""
    seen = "".join(task_fingerprint(admit(task)) for task in tasks)
    return hashlib.sha256(seen.encode()).hexdigest()


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
        "abandoned": 0,
    }
    facts = [deployed.outside.books.facts_of(deployed.effect_id(task_id)) for task_id in ids]
    assert [len(found) for found in facts] == [1] * 7
    shown = await deployed.cli("stream", "status", name)
    assert f"Stream {name}: 7 tasks, 7 settled" in shown.out


@pytest.mark.parametrize("name", ["bad id!", "-x", "a;b", "$(ls)", "a\n", "é", "n" * 129])
async def test_a_new_stream_or_replay_has_a_name_that_a_printed_command_can_hold(cli, name):
    for words in (
        ("submit", "no-file", f"--bulk={name}"),
        ("replay", "start", "--reason", "x", "--", name),
    ):
        told = await cli(*words, code=2)
        assert f"{name!r} cannot be the name of a {words[0].replace('submit', 'stream')}: " in (
            told.sentence
        )


@pytest.mark.parametrize("name", ["", "bad id!"])
async def test_a_stream_of_an_odd_name_that_was_begun_before_can_be_paused(deployed, name):
    why = ("--reason", "test")
    missing = await deployed.cli("stream", "status", name, code=5 if name else 2)
    assert missing.sentence.startswith(f"there is no stream {name}" if name else "Invalid value")
    await Stream(deployed.client, name).open()
    for word in ("pause", "resume"):
        assert (await deployed.cli("stream", word, name, *why)).out.startswith(f"Stream {name}: ")
    assert (await deployed.cli("stream", "status", name)).out.startswith(f"Stream {name}: ")


async def test_a_smooth_task_of_a_stream_can_be_explained(deployed):
    task_id = deployed.new_id()
    file = deployed.file(deployed.task(task_id), name="one.jsonl")
    await deployed.cli("submit", file, "--bulk", deployed.new_id())
    shown = await deployed.cli("explain", task_id)
    assert "a stream carried it" in shown.out
    assert "It exists outside as" in shown.out


async def test_ctrl_c_ends_a_bulk_and_says_that_the_same_command_goes_on_with_it(deployed):
    name, partition = deployed.new_id(), deployed.new_id("bulk")
    ids = [deployed.new_id() for _ in range(3)]
    tasks = (deployed.task(task_id, partition=partition) for task_id in ids)
    bulk = ("submit", deployed.file(*tasks, name="c.jsonl"), "--bulk", name)
    await deployed.cli("pause", partition, "--reason", "test")
    process = await deployed.cli.start(*bulk)
    stream = Stream(deployed.client, name)

    async def held():
        with contextlib.suppress(NotFound):
            return (await stream.progress()).held

    await wait_until(held, what="a stream that is held")
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == failure.INTERRUPTED
    *_, said, end = err.decode().splitlines()
    assert said == "Stopped half-way. Run the same again: what was done is recognised."
    assert end == failure.INTERRUPTION
    await deployed.cli("resume", partition)
    again = await deployed.cli(*bulk, "--json")
    assert (again.document["tally"]["tasks"], again.document["tally"]["settled"]) == (3, 3)


async def test_what_holds_a_stream_is_said_once_while_it_is_fed(deployed):
    name, one, other = deployed.new_id(), deployed.new_id("bulk"), deployed.new_id("bulk")
    tasks = [deployed.task(deployed.new_id(), partition=each) for each in (one, other)]
    for partition in (one, other):
        await deployed.cli("pause", partition, "--reason", "test")
    file = deployed.file(*tasks, name="c.jsonl")
    process = await deployed.cli.start("submit", file, "--bulk", name, "--chunk", "1")
    async with asyncio.timeout(60):
        said = {(await process.stderr.readline()).decode() for _ in range(2)}
        for partition in (one, other):
            (line,) = (line for line in said if f"Partition {partition} is paused since" in line)
            assert "by ada: test." in line
            assert f'`ascertain resume {partition} --reason "WHY"` opens it.' in line
        await deployed.cli("stream", "pause", name, "--reason", "look")
        # A look that says the gates again would say them before this.
        paused = (await process.stderr.readline()).decode()
        assert paused.startswith(f"Stream {name} is paused: ada: look. `ascertain stream resume")
        await deployed.cli("stream", "resume", name, "--reason", "right")
        for partition in (one, other):
            await deployed.cli("resume", partition)
        _, rest = await process.communicate()
    assert process.returncode == 0
    assert b"paused" not in rest


async def test_a_stream_goes_on_in_the_chunks_that_it_was_begun_with_whatever_is_asked_for(
    deployed,
):
    name, partition = deployed.new_id(), deployed.new_id("bulk")
    ids = [deployed.new_id() for _ in range(8)]
    first, *others = ids
    tasks = (deployed.task(task_id, partition=partition) for task_id in others)
    file = deployed.file(deployed.task(first), *tasks, name="c.jsonl")
    await deployed.cli("pause", partition, "--reason", "test")
    process = await deployed.cli.start("submit", file, "--bulk", name, "--chunk", "1")

    async def begun():
        with contextlib.suppress(NotFound):
            return (await Stream(deployed.client, name).progress()).done_below == 1

    await wait_until(begun, what="a stream whose first chunk is done")
    process.send_signal(signal.SIGINT)
    await process.communicate()
    await deployed.cli("resume", partition)
    again = await deployed.cli("submit", file, "--bulk", name, "--chunk", "4", "--json")
    assert again.document["tally"]["settled"] == 8
    facts = [deployed.outside.books.facts_of(deployed.effect_id(task_id)) for task_id in ids]
    assert [len(found) for found in facts] == [1] * 8


async def test_a_line_that_is_no_task_is_told_and_nothing_is_begun_until_it_is_mended(deployed):
    good, bad, name = deployed.new_id(), deployed.new_id(), deployed.new_id()
    lines = deployed.task(good), "{", deployed.task(bad, kind="no.such")
    told = await deployed.cli(
        "submit", deployed.file(*lines, name="c.jsonl"), "--bulk", name, code=2
    )
    assert "c.jsonl:2:2: refused: not JSON: " in told.err
    assert f"c.jsonl:3: refused: task '{bad}': no such kind of effect here: no.such" in told.err
    assert "no such kind of effect" in told.err
    assert not await deployed.ledger.effects(EffectFilter(task_id=good))
    mended = deployed.file(deployed.task(good), deployed.task(bad), name="c.jsonl")
    again = await deployed.cli("submit", mended, "--bulk", name, "--json")
    assert again.document["tally"]["settled"] == 2


async def test_one_id_with_two_contents_is_told_by_its_lines_and_nothing_is_begun(deployed):
    task_id, other = deployed.new_id(), deployed.new_id()
    lines = deployed.task(task_id), deployed.task(other), deployed.task(task_id, partition="b")
    file = deployed.file(*lines, name="c.jsonl")
    told = await deployed.cli("submit", file, "--bulk", deployed.new_id(), code=2)
    assert f"{file}:3: refused: task '{task_id}' stands in line 1 with other content" in told.err
    assert not await deployed.ledger.effects(EffectFilter(task_id=task_id))
    assert not await deployed.ledger.effects(EffectFilter(task_id=other))


async def test_the_tasks_of_a_stream_that_conflict_are_named_with_why_and_what_to_do(deployed):
    ids = [deployed.new_id() for _ in range(7)]
    first = deployed.file(*map(deployed.task, ids), name="a.jsonl")
    await deployed.cli("submit", first, "--bulk", deployed.new_id())
    given = [{"name": "note", "kind": "note.create", "input": {"text": "other"}}]
    changed = [deployed.task(task_id, steps=given) for task_id in ids]
    name, file = deployed.new_id(), deployed.file(*changed, name="b.jsonl")
    told = await deployed.cli("submit", file, "--bulk", name, code=Conflict.exit_code)
    why = "Not begun, because the id was used before for other content, which stands"
    assert f"{why}: {', '.join(ids[:5])} and 2 more." in told.out
    assert f"`ascertain explain {ids[0]}` tells what stands under the first." in told.out
    assert "an id of its own, and carry it in another file and under another name." in told.out
    shown = await deployed.cli("stream", "status", name)
    assert f"{why} or its deadline had passed: {ids[0]}, " in shown.out


async def test_a_task_that_came_too_late_for_a_stream_may_have_a_later_deadline(deployed):
    task = deployed.task(deployed.new_id(), deadline="2020-01-01T00:00:00Z")
    file = deployed.file(task, name="a.jsonl")
    told = await deployed.cli("submit", file, "--bulk", deployed.new_id(), code=3)
    assert f"stands or its deadline had passed: {task['task_id']}." in told.out
    assert "an id of its own or a later deadline" in told.out


async def test_the_same_file_again_tells_what_became_of_it_and_other_tasks_need_another_name(
    deployed,
):
    name = deployed.new_id()
    file = deployed.file(deployed.task(deployed.new_id()), name="a.jsonl")
    first = await deployed.cli("submit", file, "--bulk", name, "--json")
    again = await deployed.cli("submit", file, "--bulk", name, "--json")
    assert again.document == first.document
    other = deployed.file(deployed.task(deployed.new_id()), name="b.jsonl")
    refused = await deployed.cli("submit", other, "--bulk", name, code=3)
    assert f"stream {name!r} carries other tasks" in refused.sentence


async def test_a_stream_that_nobody_opened_or_that_is_over_cannot_be_paused(deployed):
    for word in (("pause", "--reason", "so"), ("status",)):
        unknown = await deployed.cli("stream", *word, "nobody-opened-this", code=5)
        assert unknown.sentence == "there is no stream nobody-opened-this"
    name = deployed.new_id()
    file = deployed.file(deployed.task(deployed.new_id()), name="a.jsonl")
    await deployed.cli("submit", file, "--bulk", name)
    late = await deployed.cli("stream", "pause", name, "--reason", "so", code=4)
    assert late.sentence == f"stream {name} is over, so nothing can be told it any more"


async def test_a_stream_says_who_paused_it_and_a_repeat_is_applied_once(deployed):
    stream = Stream(deployed.client, deployed.new_id())
    await stream.open()
    why = ("--operator", "ada", "--reason", "the texts are looked at", "--request-id", "p-1")
    shown = await deployed.cli("stream", "pause", stream.name, *why)
    assert "The last word to it was of ada: the texts are looked at." in shown.out
    await deployed.cli("stream", "resume", stream.name, "--operator", "bob", "--reason", "right")
    again = await deployed.cli("stream", "pause", stream.name, *why, "--json")
    assert (again.document["paused"], again.document["said"]) == (False, "bob: right")
    twice = await deployed.cli("stream", "resume", stream.name, "--reason", "so", code=4)
    assert twice.sentence.endswith("resume refused: it is not paused")
    await stream.close()


async def test_what_a_stream_was_begun_with_and_told_last_is_known_after_its_end(deployed):
    stream = Stream(deployed.client, deployed.new_id())
    await stream.open(per_second=50, chunk=20)
    await deployed.cli("stream", "pause", stream.name, "--operator", "ada", "--reason", "look")
    await deployed.cli("stream", "resume", stream.name, "--operator", "bob", "--reason", "right")
    await stream.close()
    shown = await deployed.cli("stream", "status", stream.name)
    assert "The last word to it was of bob: right." in shown.out
    assert "It was begun with a rate of 50 a second, and chunks of 10 tasks at most." in shown.out
    told = (await deployed.cli("stream", "status", stream.name, "--json")).document
    assert (told["per_second"], told["chunk"]) == (50, 10)


async def test_a_rate_that_a_stream_does_not_take_is_told(deployed):
    tasks = [deployed.task(deployed.new_id()) for _ in range(2)]
    file = deployed.file(*tasks, name="c.jsonl")
    stream = Stream(deployed.client, deployed.new_id())
    await stream.open(per_second=50, content=content_of(tasks))
    told = await deployed.cli("submit", file, "--bulk", stream.name, "--rate", "5")
    assert f"Stream {stream.name} was begun before and keeps its rate of 50 a second" in told.err
    assert f"`ascertain stream pause {stream.name} --reason" in told.err
    free = Stream(deployed.client, deployed.new_id())
    await free.open(content=content_of(tasks))
    told = await deployed.cli("submit", file, "--bulk", free.name, "--rate", "5")
    assert "keeps no rate" in told.err
    name = deployed.new_id()
    assert not (await deployed.cli("submit", file, "--bulk", name, "--rate", "50")).err


async def test_a_file_that_is_changed_while_it_is_carried_is_not_reported_as_done(deployed):
    name, partition = deployed.new_id(), deployed.new_id("bulk")
    ids = [deployed.new_id() for _ in range(100)]

    def lines(text):
        given = {"name": "do", "kind": "note.create", "input": {"text": text * 2000}}
        return [deployed.task(task_id, partition=partition, steps=[given]) for task_id in ids]

    file = deployed.file(*lines("a"), name="c.jsonl")
    await deployed.cli("pause", partition, "--reason", "test")
    process = await deployed.cli.start("submit", file, "--bulk", name, "--chunk", "1")

    async def held():
        with contextlib.suppress(NotFound):
            return (await Stream(deployed.client, name).progress()).held

    await wait_until(held, what="a stream that is held")
    await asyncio.to_thread(shutil.copyfile, deployed.file(*lines("b"), name="other.jsonl"), file)
    await deployed.cli("resume", partition)
    _, err = await process.communicate()
    assert process.returncode == Conflict.exit_code
    assert "the file was changed while it was carried" in err.decode()


async def test_a_stream_that_counts_other_than_the_file_holds_does_not_pass_for_done(deployed):
    """As an earlier release fed a part of it in smaller chunks, of which its memo does not tell."""
    name = deployed.new_id()
    tasks = [deployed.task(deployed.new_id()) for _ in range(6)]
    stream = Stream(deployed.client, name)
    await stream.open(content=content_of(tasks))
    for number, task in enumerate(tasks[:4]):
        await stream.feed(number, [admit(task)])
    file = deployed.file(*tasks, name="c.jsonl")
    told = await deployed.cli("submit", file, "--bulk", name, "--chunk", "3", code=3)
    assert "The stream counts 4 tasks where" in told.err
    assert "holds 6" in told.err


async def test_large_tasks_go_in_smaller_chunks(deployed):
    # Only the text is sent: what the outside lists stays small for whoever compares it.
    large = {"text": "x", "unsent": "x" * 200_000}
    given = {"name": "do", "kind": "note.create", "input": large}
    tasks = [deployed.task(deployed.new_id(), steps=[given]) for _ in range(5)]
    file = deployed.file(*tasks, name="c.jsonl")
    told = await deployed.cli("submit", file, "--bulk", deployed.new_id(), "--json")
    assert told.document["tally"]["settled"] == 5
    assert told.document["done_below"] == 3
