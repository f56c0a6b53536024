"""Streams: smooth tasks share a workflow, chunk by chunk; whatever needs anything becomes one of its own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateStage

from ascertain.contracts import names
from ascertain.contracts.command import Action
from ascertain.contracts.replay import Said, Say
from ascertain.contracts.stream import Chunk, Tally
from ascertain.contracts.task import TaskOutcome
from ascertain.door import admit
from ascertain.errors import CommandRefused, Conflict, NotFound
from ascertain.ledger.gate import turn_of
from ascertain.stream import Stream, workflow_id
from ascertain.testing.knob import Answer, Drop, Rule, Silence, SubmitKnobs
from tests.protocol.deployment import command, step
from tests.protocol.kinds import MORTAL
from tests.protocol.test_amend import budget_used
from tests.protocol.test_person import quarantined
from tests.waiting import wait_until
from workflows.stream import HELD_PAUSE

LOST = SubmitKnobs(reply=Drop(how="reset"))
WHY = Say(operator="ada", reason="the texts are looked at again")
OF_BOB = {"operator": "bob", "reason": "that is all"}


def tasks_of(deployment, count, **fields):
    return [admit(deployment.task(f"t{number}", **fields)) for number in range(count)]


async def each(tasks):
    for task in tasks:
        yield task


async def carry(stream, tasks, **options):
    return [done async for done in stream.carry(each(tasks), **options)]


def facts(deployment, count):
    return [deployment.facts(deployment.effect(f"t{number}")) for number in range(count)]


@pytest.fixture
async def deployment(deployments):
    return await deployments(policy={"retry_base": 0.1})


@pytest.fixture
async def stream(deployment):
    opened = Stream(deployment.client, deployment.id("campaign"))
    await opened.open()
    return opened


async def test_smooth_tasks_share_one_workflow_and_each_has_its_fact(deployment, stream):
    await deployment.worker()
    told = await carry(stream, tasks_of(deployment, 25), chunk=10, window=2)
    ended = await stream.close()
    assert told[-1] == 25
    assert ended.tally == Tally(tasks=25, settled=25)
    assert ended.done_below == 3
    assert facts(deployment, 25) == [1] * 25
    with pytest.raises(NotFound):
        await deployment.status("t0")
    assert await deployment.moves(deployment.effect("t7")) == ["claim", "settle"]


async def test_more_chunks_than_the_server_lets_wait_are_given_once_there_is_room(
    deployment, stream
):
    """As those of a feeder that was killed wait beside those of the next one."""
    await deployment.worker()
    await deployment.gate("p", paused=True)
    tasks = tasks_of(deployment, 14, partition="p")
    carrying = asyncio.create_task(carry(stream, tasks, chunk=1, window=14))

    # The client itself tries again for ten seconds.
    given_up, _ = await asyncio.wait({carrying}, timeout=15)
    assert not given_up
    await deployment.gate("p", paused=False)
    assert (await carrying)[-1] == 14
    assert (await stream.close()).tally == Tally(tasks=14, settled=14)
    assert facts(deployment, 14) == [1] * 14


async def test_a_lost_answer_leaves_the_chunk_and_is_looked_up_by_a_task_of_its_own(
    deployment, stream
):
    await deployment.worker()
    lost = [deployment.effect(name) for name in ("t1", "t4")]
    for effect in lost:
        deployment.outside.rules.add(Rule(reference=effect, times=1, submit=LOST))
    await carry(stream, tasks_of(deployment, 6), chunk=6)
    ended = await stream.close()
    assert ended.tally == Tally(tasks=6, settled=4, handed_over=2)
    assert ended.handed_over == (deployment.id("t1"), deployment.id("t4"))
    for name in ("t1", "t4"):
        assert (await deployment.result(name)).outcome is TaskOutcome.DONE
    assert facts(deployment, 6) == [1] * 6
    assert [deployment.submits(effect) for effect in lost] == [1, 1]


async def test_a_worker_killed_in_the_middle_of_a_chunk_leaves_one_fact_of_each(deployment, stream):
    deployment.settings["kinds"]["toy.fact"]["policy"] |= MORTAL
    deployment.configure()
    doomed = await deployment.worker()
    slow = deployment.effect("t3")
    deployment.outside.rules.add(
        Rule(reference=slow, times=1, submit=SubmitKnobs(reply=Silence(seconds=5)))
    )
    feeding = asyncio.create_task(carry(stream, tasks_of(deployment, 8), chunk=8))
    await wait_until(lambda: deployment.submits(slow) == 1)
    await doomed.kill()
    await deployment.worker()
    await feeding
    ended = await stream.close()
    assert ended.tally.tasks == 8
    assert ended.tally.settled + ended.tally.handed_over == 8
    for task_id in ended.handed_over:
        assert (await deployment.client.result(task_id)).outcome is TaskOutcome.DONE
    assert facts(deployment, 8) == [1] * 8
    assert [deployment.submits(deployment.effect(f"t{number}")) for number in range(8)] == [1] * 8


async def test_a_paused_partition_holds_its_chunk_and_begins_nothing(deployment, stream):
    await deployment.worker()
    await deployment.gate("p", paused=True)
    feeding = asyncio.create_task(carry(stream, tasks_of(deployment, 3, partition="p"), chunk=3))

    async def held():
        return (await stream.progress()).held == ("p",)

    await wait_until(held)
    assert facts(deployment, 3) == [0] * 3
    await deployment.gate("p", paused=False)
    await feeding
    assert (await stream.close()).tally == Tally(tasks=3, settled=3)
    assert facts(deployment, 3) == [1] * 3


async def test_a_chunk_goes_as_far_as_the_turns_of_its_effects_have_come(deployment, stream):
    await deployment.worker()
    await deployment.gate("p", paused=True)
    gate = await deployment.gate("p", paused=False, ramp=timedelta(seconds=7))
    await carry(stream, tasks_of(deployment, 6, partition="p"), chunk=6)
    assert (await stream.close()).tally == Tally(tasks=6, settled=6)
    for effect in (deployment.effect(f"t{number}") for number in range(6)):
        (begun, _) = await deployment.ledger.audit(effect)
        assert begun.at >= turn_of(effect, gate.since, gate.ramp_until)
    assert facts(deployment, 6) == [1] * 6


async def test_a_stream_that_is_fed_again_counts_nothing_twice(deployment, stream):
    await deployment.worker()
    tasks = tasks_of(deployment, 4)
    await carry(stream, tasks, chunk=2)
    await carry(stream, tasks, chunk=2)
    assert (await stream.close()).tally == Tally(tasks=4, settled=4)
    with pytest.raises(Conflict, match="carries other tasks"):
        await stream.open()


async def test_what_another_stream_has_done_is_done(deployment, stream):
    await deployment.worker()
    tasks = tasks_of(deployment, 3)
    await carry(stream, tasks)
    other = Stream(deployment.client, deployment.id("other"))
    await other.open()
    await carry(other, tasks)
    assert (await other.close()).tally == Tally(tasks=3, settled=3)
    assert facts(deployment, 3) == [1] * 3


async def test_what_the_outside_refuses_is_counted_and_done_with(deployment, stream):
    await deployment.worker()
    refused = deployment.effect("t0")
    no = SubmitKnobs(commit="never", reply=Answer(status=402))
    deployment.outside.rules.add(Rule(reference=refused, submit=no))
    await carry(stream, tasks_of(deployment, 2))
    assert (await stream.close()).tally == Tally(tasks=2, settled=1, refused=1)
    assert facts(deployment, 2) == [0, 1]


async def test_what_takes_several_steps_becomes_a_task(deployment, stream):
    await deployment.worker()
    several = admit(deployment.task("several", step("a"), step("b")))
    await carry(stream, [*tasks_of(deployment, 1), several])
    ended = await stream.close()
    assert ended.tally == Tally(tasks=2, settled=1, handed_over=1)
    assert (await deployment.result("several")).outcome is TaskOutcome.DONE


async def test_an_id_that_stands_for_other_content_is_named_and_nothing_is_done_for_it(
    deployment, stream
):
    await deployment.worker()
    await deployment.submit("t0", step(amount=2))
    await deployment.result("t0")
    await carry(stream, tasks_of(deployment, 2))
    ended = await stream.close()
    assert ended.tally == Tally(tasks=2, settled=1, conflicting=1)
    assert ended.conflicting == (deployment.id("t0"),)
    assert facts(deployment, 2) == [1, 1]


async def test_an_id_that_another_stream_has_done_with_other_content_is_named_as_well(
    deployment, stream
):
    await deployment.worker()
    await carry(stream, tasks_of(deployment, 2))
    other = Stream(deployment.client, deployment.id("other"))
    await other.open()
    changed = admit(deployment.task("t0", step(amount=2)))
    await carry(other, [changed, *tasks_of(deployment, 2)[1:]])
    ended = await other.close()
    assert ended.tally == Tally(tasks=2, settled=1, conflicting=1)
    assert ended.conflicting == (deployment.id("t0"),)
    assert facts(deployment, 2) == [1, 1]
    with pytest.raises(NotFound):
        await deployment.result("t0")


async def test_what_persons_had_ended_before_is_told_as_that_and_not_handed_over(
    deployments,
):
    deployment = await deployments(policy={"budget": 1})
    await deployment.worker()
    blind, asked = step(kind="toy.neither"), step(kind="toy.asked")
    given_up = await quarantined(deployment, "given-up")
    await deployment.takeover("given-up", command(Action.ABANDON, given_up))
    await deployment.result("given-up")
    amended = await budget_used(deployment, "amended")
    new = command(Action.AMEND, amended, input={"amount": 7})
    await deployment.takeover("amended", new)
    await deployment.result("amended")
    stream = Stream(deployment.client, deployment.id("campaign"))
    await stream.open()
    tasks = [deployment.task("given-up", blind), deployment.task("amended", asked)]
    await carry(stream, map(admit, tasks))
    ended = await stream.close()
    assert ended.tally == Tally(tasks=2, settled=1, abandoned=1)
    assert ended.handed_over == ()


async def test_a_task_that_was_begun_with_other_steps_is_not_begun_again_by_a_stream(
    deployment, stream
):
    await deployment.worker()
    await deployment.submit("t0", step("other"))
    await deployment.result("t0")
    await carry(stream, tasks_of(deployment, 2))
    ended = await stream.close()
    assert ended.conflicting == (deployment.id("t0"),)
    assert facts(deployment, 2) == [0, 1]


async def test_a_task_that_a_chunk_names_twice_is_done_once(deployment, stream):
    await deployment.worker()
    (task,) = tasks_of(deployment, 1)
    await carry(stream, [task, task])
    assert (await stream.close()).tally == Tally(tasks=2, settled=1, handed_over=1)
    assert (await deployment.result("t0")).outcome is TaskOutcome.DONE
    assert facts(deployment, 1) == [1]
    assert deployment.submits(deployment.effect("t0")) == 1


async def test_a_paused_stream_begins_no_further_chunk(deployment, stream):
    await deployment.worker()
    await stream.pause(WHY)
    feeding = asyncio.create_task(carry(stream, tasks_of(deployment, 2)))

    async def paused():
        return (await stream.progress()).paused

    await wait_until(paused)
    await stream.resume(WHY)
    await feeding
    assert (await stream.close()).tally.settled == 2


async def test_a_chunk_for_which_several_wait_is_counted_once_although_the_first_could_not_be_read(
    deployment, stream
):
    await deployment.worker()
    await stream.pause(WHY)
    handle = deployment.client.temporal.get_workflow_handle(workflow_id(stream.name))
    content = Chunk(tasks=tasks_of(deployment, 2)).model_dump(mode="json", exclude_defaults=True)
    fed = [
        await handle.start_update(
            names.FEED, args=[0, 2, chunk], wait_for_stage=WorkflowUpdateStage.ACCEPTED
        )
        for chunk in ("no chunk", content, content)
    ]
    await stream.resume(WHY)
    with pytest.raises(WorkflowUpdateFailedError):
        await fed[0].result()
    for carried in fed[1:]:
        await carried.result()
    assert (await stream.close()).tally == Tally(tasks=2, settled=2)


async def test_a_stream_knows_who_paused_it_and_hears_each_word_once(deployment, stream):
    await deployment.worker()
    pause = WHY.model_copy(update={"request_id": "pause-1"})
    told = await stream.pause(pause)
    assert ((await stream.progress()).paused, (await stream.progress()).said) == (
        True,
        "ada: the texts are looked at again",
    )
    with pytest.raises(CommandRefused, match=r"paused already: ada: the texts are looked at again"):
        await stream.pause(Say(operator="bob", reason="so do I"))
    assert await stream.resume(Say(operator="bob", reason="they are right")) == (
        "resumed by bob: they are right"
    )
    assert await stream.pause(pause) == told
    assert not (await stream.progress()).paused
    done = await stream.close(Say(operator="bob", reason="that is all", request_id="close-1"))
    assert (done.closed, done.said) == (True, "bob: that is all")
    assert [*done.answered] == ["pause pause-1", "close close-1"]


async def test_another_word_to_a_stream_under_the_same_request_id_is_no_repeat(deployment, stream):
    await deployment.worker()
    word = WHY.model_copy(update={"request_id": "n-1"})
    told = await stream.pause(word)
    assert (await stream.resume(word)).startswith("resumed by ada")
    assert not (await stream.progress()).paused
    assert await stream.pause(word) == told
    assert not (await stream.progress()).paused, "the repeat was not applied"
    assert (await stream.close(word)).closed


async def test_a_word_to_a_stream_without_anybodys_name_counts_as_a_signal_and_not_as_an_update(
    deployment, stream
):
    await deployment.worker()
    handle = deployment.client.temporal.get_workflow_handle(workflow_id(stream.name))
    for args in ([], [None], [{}], [{"by": "ada"}], [{"operator": "ada"}], ["x"]):
        await handle.signal(names.PAUSE, args=args)
        await wait_for(stream, paused=True)
        await handle.signal(names.RESUME, args=args)
        await wait_for(stream, paused=False)
    for what in (names.PAUSE, names.RESUME, names.CLOSE):
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await handle.execute_update(what, {"reason": "x"})
        assert "operator" in str(caught.value.cause)
    assert await handle.execute_update(names.CLOSE, OF_BOB, result_type=Said)
    done = await stream.result()
    assert (done.paused, done.said) == (False, "bob: that is all")


async def wait_for(stream, *, paused):
    async def stands():
        return (await stream.progress()).paused is paused

    await wait_until(stands)


async def rate_waits(deployment, stream):
    """How long, in seconds, each wait for the rate was that came to its end, in their order."""
    handle = deployment.client.temporal.get_workflow_handle(workflow_id(stream.name))
    started, fired = {}, []
    async for event in handle.fetch_history_events():
        if event.HasField("timer_started_event_attributes"):
            timer = event.timer_started_event_attributes
            started[timer.timer_id] = timer.start_to_fire_timeout.ToTimedelta()
        if event.HasField("timer_fired_event_attributes"):
            fired.append(started[event.timer_fired_event_attributes.timer_id])
    return [wait.total_seconds() for wait in fired if wait < HELD_PAUSE]


async def fed(deployment, stream, chunks):
    """Chunks of one task each that the stream has accepted."""
    handle = deployment.client.temporal.get_workflow_handle(workflow_id(stream.name))
    return [
        await handle.start_update(
            names.FEED,
            args=[number, 1, Chunk(tasks=(task,)).model_dump(mode="json")],
            wait_for_stage=WorkflowUpdateStage.ACCEPTED,
        )
        for number, task in enumerate(tasks_of(deployment, chunks, partition="p"))
    ]


async def test_each_chunk_has_its_turn_at_the_rate_also_after_a_resume(deployment):
    await deployment.worker()
    stream = Stream(deployment.client, deployment.id("rated"))
    await stream.open(per_second=4)
    await stream.pause(WHY)
    chunks = await fed(deployment, stream, 4)
    resumed_at = datetime.now(UTC)
    await stream.resume(WHY)
    for chunk in chunks:
        await chunk.result()
    done = await stream.close()
    assert done.tally == Tally(tasks=4, settled=4)
    assert done.free_at >= resumed_at + 4 * timedelta(seconds=1 / 4)
    claims = [
        (await deployment.ledger.audit(deployment.effect(f"t{number}")))[0].at
        for number in range(4)
    ]
    assert max(claims) >= resumed_at + 3 * timedelta(seconds=1 / 4)


async def test_chunks_of_another_size_than_the_stream_has_are_turned_away(deployment):
    await deployment.worker()
    stream = Stream(deployment.client, deployment.id("small"))
    await stream.open(chunk=2)
    with pytest.raises(CommandRefused, match="holds 2 tasks at most, not 3"):
        await stream.feed(0, tasks_of(deployment, 3))
    assert facts(deployment, 3) == [0, 0, 0]


async def test_a_rate_is_kept_in_several_chunks_a_second(deployment):
    await deployment.worker()
    stream = Stream(deployment.client, deployment.id("rated"))
    await stream.open(per_second=10, chunk=3)
    await carry(stream, tasks_of(deployment, 5))
    assert (await stream.close()).done_below == 3


async def test_more_of_the_smaller_chunks_of_a_rate_are_under_way_at_a_time(deployment):
    await deployment.worker()
    stream = Stream(deployment.client, deployment.id("rated"))
    await stream.open(per_second=10)
    await stream.pause(WHY)
    handle = deployment.client.temporal.get_workflow_handle(workflow_id(stream.name))
    feeding = asyncio.create_task(carry(stream, tasks_of(deployment, 20)))

    async def eight_wait():
        told = [event.WhichOneof("attributes") async for event in handle.fetch_history_events()]
        the_pause = 1
        return told.count("workflow_execution_update_accepted_event_attributes") == the_pause + 8

    await wait_until(eight_wait)
    await stream.resume(WHY)
    await feeding
    assert (await stream.close()).tally == Tally(tasks=20, settled=20)


async def test_chunks_that_a_gate_had_held_begin_at_the_set_rate_too(deployment):
    await deployment.worker()
    await deployment.gate("p", paused=True)
    stream = Stream(deployment.client, deployment.id("rated"))
    await stream.open(per_second=2 / 3)
    chunks = await fed(deployment, stream, 2)

    async def held():
        progress = await stream.progress()
        return progress.held == ("p",) and progress.free_at < datetime.now(UTC)

    await wait_until(held)
    before = len(await rate_waits(deployment, stream))
    await deployment.gate("p", paused=False)
    for chunk in chunks:
        await chunk.result()
    assert len(await rate_waits(deployment, stream)) == before + 1
