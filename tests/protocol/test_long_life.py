"""A task that waits for long goes on in a new history and forgets nothing."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from typing_extensions import override

from activities.serving import Serving
from ascertain.client import Client, TaskEnded
from ascertain.contracts import finding, names
from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import State
from ascertain.contracts.semantics import LookupBy, Policy, Semantics
from ascertain.contracts.stream import Tally as StreamTally
from ascertain.contracts.task import TaskOutcome
from ascertain.door import admit
from ascertain.errors import CommandRefused, NotFound, TemporalDown
from ascertain.keys import effect_id
from ascertain.ledger.model import ModelLedger
from ascertain.ports import Kind
from ascertain.stream import Stream, workflow_id
from ascertain.testing.knob import Answer, Drop, LookupKnobs, Rule, SubmitKnobs
from starter.temporal import TemporalServer
from tests.protocol.deployment import command, step
from tests.protocol.test_amend import amend, successor
from tests.protocol.test_restored import (
    FORGET,
    RAISE,
    begun_before_a_restore,
    is_known_as_old,
    run_in_ledger,
)
from tests.protocol.test_stream import each
from tests.waiting import wait_until
from workers.worker import Role, build_workers

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

NEVER = SubmitKnobs(commit="never", reply=Drop(how="reset"))
# Through so many histories a command is given.
HISTORIES = 4
# What the SDK says of a run that ended before a handler of it had.
UNFINISHED = "TMPRL1102"


class ShortHistories(TemporalServer):
    """A server that suggests to continue as new after a few events."""

    @override
    def _command(self) -> Sequence[str]:
        limit = "limit.historyCount.suggestContinueAsNew=30"
        return (*super()._command(), "--dynamic-config-value", limit)


@pytest.fixture
async def temporal() -> AsyncGenerator[TemporalServer]:
    directory = Path(tempfile.mkdtemp(prefix="ascertain-short-"))
    async with ShortHistories(directory, in_memory=True) as server:
        yield server
    shutil.rmtree(directory)


async def test_a_held_task_continues_as_new_and_keeps_what_was_done(deployments):
    deployment = await deployments(policy={"held_recheck": 0.05, "ask_cap": 0.5})
    await deployment.worker()
    settled = deployment.effect("long", "a")
    # In doubt until the gate is closed, so that the next step cannot begin before.
    deployment.outside.rules.add(Rule(lookup=LookupKnobs(reply=Answer(status=503))))
    deployment.meet(SubmitKnobs(reply=Drop(how="reset")), key=settled)
    await deployment.submit("long", step("a"), step("b"), partition="p")
    await deployment.wait_for_row(settled, lambda row: row.state is State.UNKNOWN)
    await deployment.gate("p", paused=True)
    deployment.outside.rules.clear()
    handle = deployment.handle("long")
    begun = (await handle.describe()).run_id

    async def continued():
        return (await handle.describe()).run_id != begun

    await wait_until(continued)
    assert (await labels(handle))[names.TASK_STATE] == ["HELD"]
    told = [entry.step for entry in (await deployment.client.timeline(handle.id)).entries]
    assert "a" in told
    await deployment.gate("p", paused=False)
    result = await deployment.result("long")
    assert (await labels(handle))[names.TASK_STATE] == ["DONE"]
    assert result.outcome is TaskOutcome.DONE
    assert [done.step for done in result.steps] == ["a", "b"]
    assert [deployment.submits(deployment.effect("long", name)) for name in "ab"] == [1, 1]


async def new_history(deployment, task_id):
    """Wait until the task goes on in one."""
    handle = deployment.handle(task_id)
    before = (await handle.describe()).run_id

    async def continued():
        return (await handle.describe()).run_id != before

    await wait_until(continued, 60, what="a new history")


async def test_when_a_task_began_is_known_after_any_number_of_histories(deployments):
    deployment = await deployments(policy={"ask_quarantined": 0.05})
    await begun_before_a_restore(deployment, "old")
    await new_history(deployment, "old")
    await is_known_as_old(deployment, "old")


async def test_what_others_put_into_the_memo_stays_though_nobody_here_can_read_it(deployments):
    deployment = await deployments(policy={"held_recheck": 0.05})
    await deployment.worker()
    await deployment.gate("p", paused=True)
    task = admit(deployment.task("odd", partition="p"))
    theirs = RawValue(Payload(metadata={"encoding": b"binary/theirs"}, data=b"?"))
    await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW,
        task.model_dump(mode="json", exclude_defaults=True),
        id=task.task_id,
        task_queue=deployment.task_queue,
        memo={"theirs": theirs, names.MEMO_MESSAGE_ID: "m-1"},
    )
    await new_history(deployment, "odd")
    told = await deployment.handle("odd").describe()
    assert await told.memo_value(names.MEMO_MESSAGE_ID) == "m-1"
    assert "theirs" in told.raw_info.memo.fields
    await deployment.gate("p", paused=False)
    assert (await deployment.result("odd")).outcome is TaskOutcome.DONE


async def test_an_amendment_is_known_after_any_number_of_histories(deployments):
    """A further run, over a ledger that forgot it, would pursue what it replaced."""
    deployment = await deployments(policy={"budget": 1, "ask_cap": 0.05})
    await deployment.worker()
    deployment.meet(NEVER)
    effect = await deployment.submit("amended", step(kind="toy.asked"))
    row = await deployment.decidable(effect)
    new = successor(deployment, "amended")
    down = LookupKnobs(reply=Answer(status=503))
    lost = SubmitKnobs(reply=Drop(how="reset"))
    deployment.outside.rules.add(Rule(reference=new, submit=lost, lookup=down))
    assert (await deployment.takeover("amended", amend(row, {"amount": 7}))).applied
    await deployment.wait_for_row(new, lambda row: row.state is State.UNKNOWN)
    for _ in range(2):
        await new_history(deployment, "amended")
    await deployment.handle("amended").terminate("ended from outside")
    await run_in_ledger(deployment, FORGET, RAISE)
    deployment.outside.rules.clear()
    assert (
        await deployment.client.submit(deployment.task("amended", step(kind="toy.asked")))
    ).restarted
    result = await deployment.result("amended")
    assert [(done.effect_id, done.state) for done in result.steps] == [(new, State.SETTLED)]
    assert (deployment.facts(effect), deployment.facts(new), deployment.submits(new)) == (0, 1, 1)


async def test_an_amendment_that_an_older_history_gave_over_is_put_back_into_the_memo(deployments):
    """A further run knows of the one before it its memo alone."""
    deployment = await deployments(policy={"held_recheck": 0.05})
    await deployment.worker()
    await deployment.gate("p", paused=True)
    amended = {"do": {"revision": 1, "input": {"amount": 7}}}
    task = admit(deployment.task("given", partition="p"))
    await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW,
        {
            "task": task.model_dump(mode="json", exclude_defaults=True),
            "progress": {"amended": amended},
        },
        id=task.task_id,
        task_queue=deployment.task_queue,
    )
    await new_history(deployment, "given")
    told = await deployment.handle("given").describe()
    assert await told.memo_value(names.MEMO_AMENDED) == amended
    await deployment.gate("p", paused=False)
    (done,) = (await deployment.result("given")).steps
    assert (done.effect_id, done.state) == (successor(deployment, "given"), State.SETTLED)


async def test_a_stream_whose_chunks_are_held_for_long_goes_on_in_a_new_history(deployments):
    deployment = await deployments()
    await deployment.worker()
    await deployment.gate("p", paused=True)
    stream = Stream(deployment.client, deployment.id("campaign"))
    await stream.open()
    handle = deployment.client.temporal.get_workflow_handle(workflow_id(stream.name))
    begun = (await handle.describe()).run_id
    names_of = [f"t{number}" for number in range(8)]
    tasks = [admit(deployment.task(name, partition="p")) for name in names_of]

    async def fed():
        async for _ in stream.carry(each(tasks), chunk=1, window=8):
            pass

    async def continued():
        return (await handle.describe()).run_id != begun

    feeding = asyncio.create_task(fed())
    await wait_until(continued, 60, what="a new history")
    await deployment.gate("p", paused=False)
    await feeding
    assert (await stream.close()).tally == StreamTally(tasks=8, settled=8)
    assert [deployment.facts(deployment.effect(name)) for name in names_of] == [1] * 8


async def labels(handle):
    return (await handle.describe()).search_attributes


async def test_a_cancelled_task_continues_as_new_and_stays_cancelled(deployments):
    deployment = await deployments(policy={"ask_cap": 0.05})
    await deployment.worker()
    effect = deployment.effect("doubt")
    deployment.outside.rules.add(Rule(lookup=LookupKnobs(reply=Answer(status=503))))
    deployment.outside.rules.add(Rule(times=1, submit=SubmitKnobs(reply=Drop(how="reset"))))
    await deployment.submit("doubt", step("do", "toy.asked"), step("next", "toy.asked"))
    await deployment.wait_for_row(effect, lambda row: row.state is State.UNKNOWN)
    await deployment.client.cancel(deployment.id("doubt"))
    handle = deployment.handle("doubt")

    async def cancelling():
        return (await deployment.status("doubt")).cancelling

    await wait_until(cancelling)
    begun = (await handle.describe()).run_id

    async def continued():
        return (await handle.describe()).run_id != begun

    await wait_until(continued)
    assert (await deployment.status("doubt")).cancelling
    deployment.outside.rules.clear()
    with pytest.raises(TaskEnded, match="cancelled"):
        await deployment.result("doubt")
    assert (await deployment.row(effect)).state is State.SETTLED
    assert deployment.submits(deployment.effect("doubt", "next")) == 0


async def differing(deployment, name):
    """A task that waits for a person while its outside is asked again and again: its histories are short."""
    effect = deployment.effect(name)
    deployment.make_fact(effect, amount=2)
    deployment.outside.rules.add(Rule(reference=effect, submit=NEVER))
    await deployment.submit(name, step(kind="toy.asked"))
    return await deployment.decidable(effect)


async def answered(deployment, name, given):
    """The answer to a command; None if it met the end of a history and was not heard."""
    with contextlib.suppress(CommandRefused, NotFound, TemporalDown):
        return await deployment.takeover(name, given)
    return None


async def refused_through_histories(deployment, name, row):
    """Deny what exists again and again while the task goes on in one new history after the other."""
    deny = command(Action.DENY, row)
    handle, runs, answers = deployment.handle(name), set(), []
    while len(runs) < HISTORIES:
        runs.add((await handle.describe()).run_id)
        # Both reach the task together, so that it may go on in a new history while it answers.
        answer, _ = await asyncio.gather(
            answered(deployment, name, deny), handle.signal(names.RECONCILE_NOW)
        )
        answers.append(answer)
    told = [answer for answer in answers if answer is not None]
    assert told
    assert not any(answer.applied for answer in told)
    assert {"carries this id" in answer.message for answer in told} == {True}


async def test_a_command_that_meets_a_new_history_is_applied_once_or_refused(deployments):
    deployment = await deployments(policy={"ask_quarantined": 0.02})
    worker = await deployment.worker()
    rows = {f"short-{number}": None for number in range(3)}
    for name in rows:
        rows[name] = await differing(deployment, name)
    # Whoever asks, automation or a command, waits so long: the one ends in the middle of the other.
    deployment.outside.rules.add(Rule(lookup=LookupKnobs(reply=Answer(after_s=0.2))))
    await asyncio.gather(
        *(refused_through_histories(deployment, name, row) for name, row in rows.items())
    )

    async def taken(name, row):
        take = command(Action.TAKE, row, request_id=f"take-{name}")
        sent = take.model_dump(mode="json", exclude_none=True)
        await deployment.handle(name).signal(names.TAKEOVER, sent)

        async def applied():
            answer = await answered(deployment, name, take)
            return answer is not None and answer.applied

        await wait_until(applied, 60, what=f"the take of {name}")
        await deployment.handle(name).signal(names.TAKEOVER, sent)

    await asyncio.gather(*(taken(name, row) for name, row in rows.items()))
    for name, row in rows.items():
        assert (await deployment.moves(row.effect_id)).count("take") == 1
        assert (await deployment.row(row.effect_id)).state is State.TAKEN_OVER
        assert deployment.submits(deployment.effect(name)) == 1
    assert UNFINISHED not in worker.log.read_text()


class Undecided:
    """An outside that never says whether it did anything, and takes its time over questions if told to."""

    semantics = Semantics(
        lookup=LookupBy.REFERENCE, in_flight_max=timedelta(0), max_duration=timedelta(seconds=60)
    )

    def __init__(self):
        self.slow, self.questions = False, []

    def prepare(self, effect):
        return effect.effect_id.encode()

    async def perform(self, call, permit):
        permit.check()
        raise ConnectionResetError

    async def lookup(self, call, *, within):
        if self.slow:
            answer = asyncio.Event()
            self.questions.append(answer)
            await answer.wait()
        return finding.Several(external_ids=("fact-1", "fact-2"))

    async def aclose(self):
        pass


async def test_a_command_that_waits_its_turn_as_a_new_history_begins_is_applied(temporal_client):
    """The answers to the command before it and to the turn arrive together, while no workflow runs."""
    ledger, outside = ModelLedger(lambda: datetime.now(UTC)), Undecided()
    policy = Policy(
        queue="turn-toy",
        lease=timedelta(seconds=0.3),
        heartbeat=timedelta(seconds=60),
        ask_quarantined=timedelta(seconds=1),
        ask_first=timedelta(seconds=0.05),
    )
    serving = Serving(ledger, {"toy": Kind("toy", outside.semantics, policy, outside)}, "worker")
    client = Client(temporal_client, task_queue="turn")
    effect = effect_id(temporal_client.namespace, "turn-1", "do", 0)
    handle = temporal_client.get_workflow_handle("turn-1")

    def orchestrating():
        (worker,) = build_workers(temporal_client, serving, Role(()), "turn")
        return worker

    async def quarantined():
        case = await ledger.inspect(effect)
        if case is None or case.row.state is not State.QUARANTINED:
            return False
        return (datetime.now(UTC) - case.row.lease_until).total_seconds() > 0.5

    async def says(action):
        word = Command(
            action=action, operator="ada", reason="so", version=version, effect_id=effect
        )
        await handle.signal(names.TAKEOVER, word.model_dump(mode="json", exclude_none=True))

    async def answered(left):
        return len((await handle.describe()).raw_description.pending_activities) == left

    async def taken():
        return (await ledger.inspect(effect)).row.state is State.TAKEN_OVER

    step = {"name": "do", "kind": "toy", "input": {}}
    (acting,) = build_workers(
        temporal_client, serving, Role(("turn-toy",), orchestrate=False), "turn"
    )
    async with acting:
        async with orchestrating():
            await client.submit({"task_id": "turn-1", "kind": "toy", "steps": [step]})
            await wait_until(quarantined, 60)
            outside.slow = True
            await wait_until(lambda: len(outside.questions) == 1, 60, what="the turn's question")
            version = (await ledger.inspect(effect)).row.version
            for _ in range(40):  # so that a new history is due
                await handle.signal(names.TAKEOVER, {"nonsense": 1})
            await says(Action.DENY)
            await wait_until(lambda: len(outside.questions) == 2, 60, what="the command's question")
            await says(Action.TAKE)
            await client.status("turn-1")  # it has heard of both
        outside.questions[1].set()
        await wait_until(lambda: answered(1), 60)
        outside.questions[0].set()
        await wait_until(lambda: answered(0), 60)
        outside.slow = False
        async with orchestrating():
            await wait_until(taken, 60, what="the second command's turn")


@pytest.mark.parametrize("rate", [None, 5])
async def test_a_chunk_that_waits_while_its_stream_is_paused_gives_way_to_a_new_history(
    deployments, rate
):
    deployment = await deployments()
    await deployment.worker()
    stream = Stream(deployment.client, deployment.id("paused"))
    await stream.open(per_second=rate)
    handle = deployment.client.temporal.get_workflow_handle(workflow_id(stream.name))
    await handle.signal(names.PAUSE)
    begun = (await handle.describe()).run_id
    feeding = asyncio.create_task(stream.feed(0, [admit(deployment.task("t0"))]))

    async def continued():
        await handle.signal(names.PAUSE)
        return (await handle.describe()).run_id != begun

    await wait_until(continued)
    assert not feeding.done()
    await handle.signal(names.RESUME)
    await feeding
    assert (await stream.close()).tally == StreamTally(tasks=1, settled=1)
