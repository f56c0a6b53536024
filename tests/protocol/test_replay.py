"""A replay asks first, goes in small batches, adds up, and makes one fact of each item whatever happens."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.contracts.replay import Outlook, Pace, ReplayRequest, Result, Say, Selection
from ascertain.contracts.task import TaskOutcome
from ascertain.errors import CommandRefused, Conflict
from ascertain.operation import Operations
from ascertain.testing.knob import Answer, Drop, Rule, SubmitKnobs
from tests.protocol.deployment import step
from tests.protocol.kinds import IN_FLIGHT_MAX_S
from tests.protocol.test_person import Action, command
from tests.waiting import wait_until
from workers.worker import sandbox
from workflows.replay import ReplayWorkflow

BUSY = SubmitKnobs(commit="never", reply=Answer(status=429, body={}))
LOST = SubmitKnobs(reply=Drop(how="reset"))
# The permit of an attempt that did nothing has to run out before an empty lookup proves that.
ONE_TRY = {"budget": 1, "ask_quarantined": 3600, "lease": 3}
# Room for attempts that a busy machine, or a kill, makes in vain.
TRIES = 3
SOME_TRIES = {**ONE_TRY, "budget": TRIES}
WORD = Say(operator="ada", reason="looked at it")


async def quarantine(deployment, *tasks, kind="toy.throttling", by=BUSY, tries=1):
    """Tasks whose effect was turned away as often as the budget allows; the outside is well again."""
    deployment.outside.rules.add(Rule(times=tries * len(tasks), submit=by))
    await asyncio.gather(
        *(
            deployment.submit(task, step(kind=kind), partition=deployment.task_queue)
            for task in tasks
        )
    )
    for task in tasks:
        await deployment.wait_for_row(deployment.effect(task), _is_conclusive)
    return [deployment.effect(task) for task in tasks]


def _is_conclusive(row):
    """In quarantine, and so long after the last send that an empty lookup proves absence."""
    past = (row.now - row.lease_until).total_seconds() > IN_FLIGHT_MAX_S
    return row.state is State.QUARANTINED and past


def operations(deployment):
    return Operations(deployment.client, deployment.task_queue)


async def start(deployment, name="again", *, go_on=True, pace=None, **selection):
    replay_id = f"{deployment.task_queue}-{name}"
    fast = {"canary": 2, "batch": 10, "rate": 50, "patience": 60}
    request = ReplayRequest(
        operator="ada",
        reason="the outside is well again",
        selection=Selection(**{"partition": deployment.task_queue, **selection}),
        pace=Pace(**{**fast, **(pace or {})}),
        go_on=go_on,
    )
    await operations(deployment).start_replay(replay_id, request)
    return replay_id


async def tally_of(deployment, replay_id, within_s=80):
    handle = deployment.client.temporal.get_workflow_handle(replay_id)
    await asyncio.wait_for(handle.result(), within_s)
    return await deployment.ledger.replays.tally(replay_id)


async def paused(deployment, replay_id):
    async def told():
        return (await operations(deployment).replay_status(replay_id)).paused

    return await wait_until(told, what="a paused replay")


def one_fact_each(deployment, effects):
    return {effect: deployment.facts(effect) for effect in effects} == dict.fromkeys(effects, 1)


async def test_the_dry_run_waits_where_an_empty_answer_soon_says_something(deployments):
    deployment = await deployments(policy=ONE_TRY)
    await deployment.worker()
    deployment.outside.rules.add(Rule(times=1, submit=BUSY))
    await deployment.submit(
        "just-now", step(kind="toy.throttling"), partition=deployment.task_queue
    )
    effect = deployment.effect("just-now")
    await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    tally = await tally_of(deployment, await start(deployment))
    assert (tally.outlooks, tally.results) == ({"ABSENT": 1}, {"DONE": 1})
    assert one_fact_each(deployment, [effect])


async def test_the_dry_run_asks_for_every_item_and_changes_nothing(deployments):
    deployment = await deployments(policy=SOME_TRIES)
    await deployment.worker()
    absent = await quarantine(deployment, "absent-1", "absent-2", tries=TRIES)
    (there,) = await quarantine(deployment, "there", tries=TRIES)
    deployment.make_fact(there, amount=1)
    await quarantine(deployment, "blind", kind="toy.neither", by=LOST)
    before = {row.effect_id: (row.version, row.state) for row in await deployment.rows()}
    replay_id = await start(deployment, go_on=False)
    assert "dry run is done" in await paused(deployment, replay_id)
    items = {item.effect_id: item for item in await deployment.ledger.replays.items(replay_id)}
    assert {items[effect].outlook for effect in absent} == {Outlook.ABSENT}
    assert items[there].outlook is Outlook.THERE
    blind = items[deployment.effect("blind")]
    assert (blind.outlook, blind.result) == (Outlook.UNKNOWN, Result.LEFT)
    after = {row.effect_id: (row.version, row.state) for row in await deployment.rows()}
    assert before == after
    await operations(deployment).say(replay_id, names.RESUME, WORD)
    tally = await tally_of(deployment, replay_id)
    assert tally.results == {"DONE": 2, "FOUND": 1, "LEFT": 1}
    assert one_fact_each(deployment, [*absent, there])
    assert deployment.submits(there) == TRIES
    assert (await deployment.row(blind.effect_id)).state is State.QUARANTINED
    history = await deployment.client.temporal.get_workflow_handle(replay_id).fetch_history()
    replayer = Replayer(
        workflows=[ReplayWorkflow],
        workflow_runner=sandbox(),
        data_converter=pydantic_data_converter,
    )
    await replayer.replay_workflow(history)


async def test_two_replays_and_a_person_at_the_same_time_make_one_fact_of_each_item(deployments):
    deployment = await deployments(policy=SOME_TRIES)
    await deployment.worker()
    tasks = [f"t-{number}" for number in range(8)]
    effects = await quarantine(deployment, *tasks, tries=TRIES)
    rows = {task: await deployment.row(deployment.effect(task)) for task in tasks}
    replays = [await start(deployment, name, go_on=False) for name in ("one", "two")]
    for replay_id in replays:
        await paused(deployment, replay_id)
    await asyncio.gather(
        *(operations(deployment).say(replay_id, names.RESUME, WORD) for replay_id in replays),
        *(deployment.takeover(task, command(Action.RETRY, rows[task])) for task in tasks[::2]),
    )
    tallies = [await tally_of(deployment, replay_id) for replay_id in replays]
    for task in tasks:
        assert (await deployment.result(task)).outcome is TaskOutcome.DONE
    assert one_fact_each(deployment, effects)
    assert all(sum(tally.results.values()) == tally.items == 8 for tally in tallies)
    done = sum(tally.results.get("DONE", 0) for tally in tallies)
    trails = [await deployment.ledger.audit(effect) for effect in effects]
    retries = Counter(
        event.evidence.body["request_id"].startswith("replay-")
        for trail in trails
        for event in trail
        if event.move == "retry"
    )
    assert retries.total() == 8, "each item was retried once, by whoever came first"
    assert retries[True] == done


async def test_too_many_errors_stop_a_replay_until_a_person_resumes_it(deployments):
    deployment = await deployments(policy=ONE_TRY)
    await deployment.worker()
    effects = await quarantine(deployment, *(f"t-{number}" for number in range(4)))
    deployment.outside.rules.add(Rule(times=2, submit=BUSY))
    replay_id = await start(deployment, pace={"canary": 2, "stop_share": 0.4})
    assert "2 of 2 items came to an error" in await paused(deployment, replay_id)
    tally = await deployment.ledger.replays.tally(replay_id)
    assert tally.results == {"QUARANTINED": 2, "WAITING": 2}
    await operations(deployment).say(replay_id, names.RESUME, WORD)
    tally = await tally_of(deployment, replay_id)
    assert tally.results == {"QUARANTINED": 2, "DONE": 2}
    assert sum(deployment.facts(effect) for effect in effects) == 2


async def test_a_replay_goes_on_though_it_was_paused_before_the_death_of_its_worker_was_known(
    deployments,
):
    """Nobody is left to say that the turn was broken off: it ends with a time-out."""
    deployment = await deployments(policy=SOME_TRIES)
    worker = await deployment.worker()
    tasks = [f"t-{number}" for number in range(3)]
    effects = await quarantine(deployment, *tasks, tries=TRIES)
    replay_id = await start(deployment, pace={"canary": 3, "rate": 0.1, "ask_rate": 50})

    async def one_told():
        return (await deployment.ledger.replays.tally(replay_id)).results.get("WAITING", 3) < 3

    await wait_until(one_told)
    await worker.kill()
    await deployment.worker()
    await operations(deployment).say(replay_id, names.PAUSE, WORD)
    await operations(deployment).say(replay_id, names.RESUME, WORD)
    assert (await tally_of(deployment, replay_id, 150)).results == {"DONE": 3}
    assert one_fact_each(deployment, effects)


async def test_a_paused_replay_tells_nothing_new_and_goes_on_where_it_was(deployments):
    deployment = await deployments(policy=SOME_TRIES)
    await deployment.worker()
    tasks = [f"t-{number}" for number in range(4)]
    effects = await quarantine(deployment, *tasks, tries=TRIES)
    slowly = {"canary": 4, "rate": 0.1, "ask_rate": 50}
    replay_id = await start(deployment, go_on=False, pace=slowly)
    await paused(deployment, replay_id)
    await operations(deployment).say(replay_id, names.RESUME, WORD)

    async def one_told():
        return (await deployment.ledger.replays.tally(replay_id)).results.get("WAITING", 0) < 4

    await wait_until(one_told)
    await operations(deployment).say(replay_id, names.PAUSE, WORD)
    with pytest.raises(CommandRefused, match="paused already: ada: looked at it"):
        await operations(deployment).say(replay_id, names.PAUSE, WORD)

    async def told_are_done():
        results = (await deployment.ledger.replays.tally(replay_id)).results
        waiting = results.get("WAITING", 0)
        facts = sum(deployment.facts(effect) for effect in effects)
        return waiting if 0 < waiting == 4 - facts else None

    waiting = await wait_until(told_are_done)
    await operations(deployment).say(replay_id, names.RESUME, WORD)
    assert (await tally_of(deployment, replay_id)).results == {"DONE": 4}
    assert waiting > 0
    assert one_fact_each(deployment, effects)


async def test_a_word_that_comes_again_late_or_with_the_first_of_a_history_is_heard_once(
    deployments,
):
    deployment = await deployments(policy=ONE_TRY)
    await deployment.worker()
    await quarantine(deployment, "t-1")
    stop, go_on = (WORD.model_copy(update={"request_id": name}) for name in ("stop", "go on"))
    request = ReplayRequest(
        operator="ada", reason="so", selection=Selection(partition=deployment.task_queue)
    )
    replay_id = f"{deployment.task_queue}-early"
    await deployment.client.temporal.start_workflow(
        names.REPLAY_WORKFLOW,
        request.model_dump(mode="json"),
        id=replay_id,
        task_queue=deployment.task_queue,
        start_signal=names.PAUSE,
        start_signal_args=[stop.model_dump(mode="json", exclude_none=True)],
    )
    assert await paused(deployment, replay_id) == "ada: looked at it"
    say = operations(deployment).say
    first = await say(replay_id, names.RESUME, go_on)

    async def asked():
        return "dry run is done" in await paused(deployment, replay_id)

    await wait_until(asked)
    assert await say(replay_id, names.RESUME, go_on) == first
    assert (await say(replay_id, names.PAUSE, stop)).startswith("paused: ")
    assert await asked(), "neither was applied again"
    again = await say(replay_id, names.RESUME, stop)
    assert again.startswith("resumed by"), "another word under a used id is no repeat"


@pytest.mark.timeout(300)
async def test_killing_every_worker_in_the_middle_of_a_replay_changes_no_outcome(deployments):
    deployment = await deployments(policy=SOME_TRIES)
    first = await deployment.worker()
    effects = await quarantine(deployment, *(f"t-{number}" for number in range(24)), tries=TRIES)
    await first.drain()
    for kind in deployment.settings["kinds"].values():
        # Kills and a busy machine may cost one item several attempts.
        kind["policy"] = {**kind["policy"], "budget": 20}
    deployment.configure()
    workers = [await deployment.worker(), await deployment.worker()]
    replay_id = await start(deployment, pace={"batch": 24, "rate": 20})

    for least in (4, 12):

        async def some_done(least=least):
            return sum(deployment.facts(effect) for effect in effects) >= least

        await wait_until(some_done, 60)
        for worker in workers:
            await worker.kill()
        workers = [await deployment.worker()]
    tally = await tally_of(deployment, replay_id)
    assert sum(tally.results.values()) == tally.items == 24
    # What a dead worker had in hand may not have come to rest while the replay looked; it goes on by itself.
    assert set(tally.results) <= {"DONE", "FOUND", "OPEN"}
    for number in range(24):
        assert (await deployment.result(f"t-{number}")).outcome is TaskOutcome.DONE
    assert one_fact_each(deployment, effects)


async def test_a_task_whose_workflow_is_gone_is_started_again_and_begins_with_a_lookup(deployments):
    deployment = await deployments(policy=SOME_TRIES)
    await deployment.worker()
    gone, there = await quarantine(deployment, "gone", "there", tries=TRIES)
    deployment.make_fact(there, amount=1)
    for task in ("gone", "there"):
        await deployment.handle(task).terminate("by hand")
    replay_id = await start(deployment)
    assert (await tally_of(deployment, replay_id)).results == {"DONE": 1, "FOUND": 1}
    assert (deployment.facts(gone), deployment.submits(gone)) == (1, TRIES + 1)
    assert (deployment.facts(there), deployment.submits(there)) == (1, TRIES)
    assert (await deployment.result("gone")).outcome is TaskOutcome.DONE


async def test_a_replay_sends_nothing_into_a_paused_partition(deployments):
    deployment = await deployments(policy=ONE_TRY)
    await deployment.worker()
    (effect,) = await quarantine(deployment, "held")
    await deployment.gate(deployment.task_queue, paused=True)
    replay_id = await start(deployment, pace={"patience": 2})
    assert (await tally_of(deployment, replay_id)).results == {"OPEN": 1}
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 0)
    assert (await deployment.status("held")).state == "HELD"
    await deployment.gate(deployment.task_queue, paused=False)
    assert (await deployment.result("held")).outcome is TaskOutcome.DONE


async def test_what_is_no_replay_ends_with_a_sentence_and_an_id_is_used_once(deployments):
    deployment = await deployments()
    await deployment.worker()
    replay_id = await start(deployment)
    assert (await tally_of(deployment, replay_id)).items == 0
    with pytest.raises(Conflict, match="was started before"):
        await start(deployment)
    temporal = deployment.client.temporal
    for number, nonsense in enumerate(([1], {"operator": "ada"}, "no")):
        handle = await temporal.start_workflow(
            names.REPLAY_WORKFLOW,
            nonsense,
            id=f"{replay_id}-{number}",
            task_queue=deployment.task_queue,
        )
        with pytest.raises(WorkflowFailureError) as caught:
            await asyncio.wait_for(handle.result(), 60)
        assert "must be a ReplayRequest" in str(caught.value.cause)


async def command_of(deployment, *arguments):
    """What the command of an operator says as JSON."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ascertain", *arguments, "--json"),
        env=deployment.variables,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return json.loads(out)


async def test_a_replay_that_somebody_ended_is_told_as_over(deployments):
    deployment = await deployments(policy=SOME_TRIES)
    await deployment.worker()
    await quarantine(deployment, "t-1", tries=TRIES)
    replay_id = await start(deployment, go_on=False)
    await paused(deployment, replay_id)
    assert (await command_of(deployment, "replay", "status", replay_id))["broken_off"] is None
    await deployment.client.temporal.get_workflow_handle(replay_id).terminate()
    shown = await command_of(deployment, "replay", "status", replay_id)
    assert shown["broken_off"] == "terminated"


async def test_a_replay_that_a_gate_holds_says_which_since_when_and_how_many_wait(deployments):
    deployment = await deployments(policy={**SOME_TRIES, "held_recheck": 300})
    await deployment.worker()
    effects = await quarantine(deployment, "t-1", "t-2", tries=TRIES)
    partition = deployment.task_queue
    gate = await deployment.gate(partition, paused=True)
    replay_id = await start(deployment, pace={"patience": 1})

    async def held():
        shown = await command_of(deployment, "replay", "status", replay_id)
        found = [(each["partition"], each["by"], each["items"]) for each in shown["held_by"]]
        return shown["phase"] == "DONE" and found == [(partition, "ada", 2)]

    await wait_until(held, 80, what="a replay that says what holds it")
    report = await command_of(deployment, "replay", "report", replay_id)
    assert [each["since"] for each in report["held_by"]] == [gate.model_dump(mode="json")["since"]]
    assert {item["result"] for item in report["items"]} == {"OPEN"}
    assert [deployment.facts(effect) for effect in effects] == [0, 0]
    await deployment.gate(partition, paused=False)
    for task in ("t-1", "t-2"):
        await deployment.client.resume(deployment.id(task))
        assert (await deployment.result(task)).outcome is TaskOutcome.DONE
    assert (await command_of(deployment, "replay", "status", replay_id))["held_by"] == []


async def test_a_status_counts_the_items_of_the_batch_in_hand_as_the_report_does(deployments):
    deployment = await deployments(policy={**SOME_TRIES, "held_recheck": 300})
    await deployment.worker()
    await quarantine(deployment, "t-1", "t-2", "t-3", tries=TRIES)
    await deployment.gate(deployment.task_queue, paused=True)
    replay_id = await start(deployment, pace={"canary": 2, "patience": 300})

    async def both_told():
        return (await deployment.ledger.replays.tally(replay_id)).results.get("STARTED") == 2

    await wait_until(both_told)
    status = await command_of(deployment, "replay", "status", replay_id)
    report = await command_of(deployment, "replay", "report", replay_id)
    assert status["tally"] == report["tally"]
    assert status["tally"]["results"] == {"STARTED": 2, "WAITING": 1}
