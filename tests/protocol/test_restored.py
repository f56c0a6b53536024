"""A ledger that was restored from a backup which knows nothing of what was sent after it."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta

import asyncpg
import pytest

from ascertain.contracts.effect import State
from ascertain.contracts.epoch import EpochRequest
from ascertain.contracts.task import TaskOutcome
from ascertain.door import admit
from ascertain.stream import Stream
from ascertain.testing.knob import Answer, Drop, LookupKnobs, Rule, Silence, SubmitKnobs
from drill.points import Point
from tests.protocol.deployment import step
from tests.protocol.kinds import MORTAL
from tests.protocol.test_amend import amend, successor
from tests.protocol.test_label import labelled
from tests.waiting import wait_until

FORGET = """
    set session_replication_role = replica;
    delete from ascertain.effects;
    delete from ascertain.audit_events;
    set session_replication_role = origin;
"""

KEEP = """
    create table kept_effects as table ascertain.effects;
    create table kept_events as table ascertain.audit_events;
"""
BACK = """
    set session_replication_role = replica;
    insert into ascertain.effects select * from kept_effects;
    insert into ascertain.audit_events select * from kept_events;
    set session_replication_role = origin;
"""

# Without the minute's grace that clocks are given, which no test waits for.
RAISE = """
    insert into ascertain.epochs (request_id, since, raised_at, until, by, reason)
    values ('epoch-1', now() - interval '1 hour', now(), now(), 'ada', 'the disk broke')
    on conflict do nothing
"""


async def restore(deployment):
    """Have the ledger stand as an hour ago, when none of these tasks had been begun."""
    connection = await asyncpg.connect(deployment.ledger_url)
    now = await connection.fetchval("select now()")
    await connection.execute(FORGET)
    await connection.close()
    since = now - timedelta(hours=1)
    told = EpochRequest(since=since, by="ada", reason="the disk broke", request_id="epoch-1")
    await deployment.ledger.raise_epoch(told)


@pytest.mark.parametrize(
    ("kind", "comes_to"),
    [
        ("toy.asked", State.SETTLED),
        ("toy.keyed", State.SETTLED),
        ("toy.neither", State.QUARANTINED),
    ],
)
async def test_what_a_restored_ledger_has_forgotten_is_asked_for_and_never_sent_as_new(
    deployments, kind, comes_to
):
    deployment = await deployments(policy=MORTAL)
    doomed = await deployment.worker(deployment.plan(Point.AFTER_ANSWER))
    effect = await deployment.submit("forgotten", step(kind=kind))
    await doomed.process.wait()
    await restore(deployment)
    await deployment.worker()
    row = await deployment.wait_for_row(effect, lambda row: row.state is comes_to)
    trail = await deployment.ledger.audit(effect)
    assert (trail[0].move, trail[0].evidence.rule) == ("claim", "restored")
    assert "fenced" not in {row.error_class, *(event.evidence.rule for event in trail)}
    assert deployment.facts(effect) == 1
    if (
        comes_to is State.QUARANTINED
    ):  # what a person finds it by, who knows of nothing but the restore
        await labelled(deployment, "forgotten", "QUARANTINED", "restored")
    if kind != "toy.keyed":  # whose key makes of the same bytes a question
        assert (deployment.submits(effect), row.attempt) == (1, 1)


async def test_a_task_that_is_cancelled_meanwhile_learns_first_what_it_had_done(deployments):
    deployment = await deployments(policy=MORTAL)
    doomed = await deployment.worker(deployment.plan(Point.AFTER_ANSWER))
    effect = await deployment.submit("cancelled", step(kind="toy.asked"))
    await doomed.process.wait()
    await restore(deployment)
    await deployment.client.cancel(deployment.id("cancelled"))
    await deployment.worker()
    await deployment.wait_for_row(effect, lambda row: row.state is State.SETTLED)
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def test_a_further_run_of_a_task_counts_as_begun_when_the_first_one_was(deployments):
    """It is younger than the restore, and what it asks for may have been done before all the same."""
    deployment = await deployments()
    again = await deployment.submit("again", step(kind="toy.asked"))
    for _ in range(2):
        await deployment.handle("again").terminate()
        connection = await asyncpg.connect(deployment.ledger_url)
        await connection.execute(RAISE)
        await connection.close()
        await deployment.submit("again", step(kind="toy.asked"))
    young = await deployment.submit("young", step(kind="toy.asked"))
    await deployment.worker()
    for name in ("again", "young"):
        assert (await deployment.result(name)).outcome is TaskOutcome.DONE
    rules = [(await deployment.ledger.audit(effect))[0].evidence.rule for effect in (again, young)]
    assert rules == ["restored", "claim"]
    assert (deployment.facts(again), deployment.facts(young)) == (1, 1)


async def run_in_ledger(deployment, *statements):
    connection = await asyncpg.connect(deployment.ledger_url)
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


OLD = (step("a", "toy.asked"), step("b", "toy.asked"))


async def begun_before_a_restore(deployment, task_id):
    """A task that waits for a person, and of whose first step the ledger has forgotten that it was done."""
    await deployment.worker()
    last = deployment.effect(task_id, "b")
    deployment.make_fact(last, amount=2)  # it differs
    deployment.meet(SubmitKnobs(commit="never", reply=Drop(how="reset")), key=last)
    await deployment.submit(task_id, *OLD)
    await deployment.wait_for_row(last, lambda row: row.state is State.QUARANTINED)
    await run_in_ledger(deployment, FORGET, RAISE)


async def is_known_as_old(deployment, task_id):
    """Its further run would count as younger than the restore, and send what the ledger forgot."""
    await deployment.handle(task_id).terminate("ended from outside")
    assert (await deployment.client.submit(deployment.task(task_id, *OLD))).restarted
    first = deployment.effect(task_id, "a")
    await deployment.wait_for_row(first, lambda row: row.state is State.SETTLED)
    assert (await deployment.ledger.audit(first))[0].evidence.rule == "restored"
    assert deployment.facts(first) == 1


async def test_a_further_run_goes_on_with_an_amendment_that_the_ledger_has_forgotten(deployments):
    deployment = await deployments(policy={"budget": 1})
    before = await deployment.worker()
    deployment.meet(SubmitKnobs(commit="never", reply=Drop(how="reset")))
    effect = await deployment.submit("amended", step(kind="toy.asked"))
    row = await deployment.decidable(effect)
    await run_in_ledger(deployment, KEEP)
    new = successor(deployment, "amended")
    lost = SubmitKnobs(reply=Drop(how="reset"))
    down = LookupKnobs(reply=Answer(status=503))
    deployment.outside.rules.add(Rule(reference=new, submit=lost, lookup=down))
    assert (await deployment.takeover("amended", amend(row, {"amount": 7}))).applied
    await deployment.wait_for_row(new, lambda row: row.state is State.UNKNOWN)
    await before.kill()
    await deployment.handle("amended").terminate("ended from outside")
    await run_in_ledger(deployment, FORGET, BACK, RAISE)
    deployment.outside.rules.clear()
    again = await deployment.client.submit(deployment.task("amended", step(kind="toy.asked")))
    assert again.restarted
    await deployment.worker()
    result = await deployment.result("amended")
    assert [(done.effect_id, done.state) for done in result.steps] == [(new, State.SETTLED)]
    assert (deployment.facts(effect), deployment.facts(new), deployment.submits(new)) == (0, 1, 1)
    assert (await deployment.row(effect)).state is State.SUPERSEDED


async def test_what_a_stream_hands_over_counts_as_begun_when_the_stream_was(deployments):
    """Its chunk is carried again by a worker that leaves the kind to a queue, and so claims nothing."""
    deployment = await deployments(policy=MORTAL)
    doomed = await deployment.worker()
    effect = deployment.effect("carried")
    silence = SubmitKnobs(reply=Silence(seconds=5))
    deployment.outside.rules.add(Rule(reference=effect, times=1, submit=silence))
    stream = Stream(deployment.client, deployment.id("s"))
    await stream.open()
    task = admit(deployment.task("carried", step(kind="toy.asked")))
    feeding = asyncio.create_task(stream.feed(0, [task]))
    await wait_until(lambda: deployment.submits(effect) == 1)
    await doomed.kill()
    connection = await asyncpg.connect(deployment.ledger_url)
    await connection.execute(FORGET)
    await connection.execute(RAISE)
    await connection.close()
    deployment.settings["kinds"]["toy.asked"]["policy"]["queue"] = f"{deployment.task_queue}-asked"
    deployment.configure()
    await deployment.worker()
    await feeding
    assert (await deployment.result("carried")).outcome is TaskOutcome.DONE
    assert (await deployment.ledger.audit(effect))[0].evidence.rule == "restored"
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def test_what_waits_for_a_person_is_known_again_as_soon_as_a_restore_is_told(deployments):
    deployment = await deployments(policy={"ask_quarantined": 86_400})
    before = await deployment.worker()
    deployment.meet(SubmitKnobs(reply=Drop(how="reset")))
    effect = await deployment.submit("waiting", step(kind="toy.neither"))
    await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    await labelled(deployment, "waiting", "QUARANTINED", "no_lookup")
    await before.drain()
    await restore(deployment)
    await deployment.worker()
    told = await tell_restore(deployment)
    assert told["told"] >= 1  # the server has tasks of other tests too
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    assert (row.error_class, row.version) == ("restored", 3)
    assert (deployment.facts(effect), deployment.submits(effect)) == (1, 1)


async def tell_restore(deployment):
    """As an operator does; that it was told before changes nothing of the epoch."""
    given = ("--since", "1h", "--reason", "the disk broke", "--request-id", "epoch-1", "--json")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ascertain", "restored", *given),
        env=deployment.variables,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out)


async def typed(deployment, *arguments):
    """What an operator's command ends with, and says."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ascertain", *arguments),
        env=deployment.variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode, out.decode()


async def test_what_was_done_after_the_backup_is_recorded_again_by_importing_it_and_never_sent(
    deployments,
):
    deployment = await deployments()
    await deployment.worker()
    effect = await deployment.submit("done")
    assert (await deployment.result("done")).outcome is TaskOutcome.DONE
    await restore(deployment)
    given = ("census", "--kind", "toy.fact")
    code, said = await typed(deployment, *given)
    assert code == 13
    assert f"unrecorded: {effect} of toy.fact: the ledger does not know" in said
    assert "What to do about unrecorded: the ledger was set back, perhaps:" in said
    assert "`ascertain import FILE` and `ascertain sweep`" in said
    rows = deployment.folder / "rows.jsonl"
    row = {"state": "PROCESSING", "task": deployment.task("done")}
    rows.write_text(json.dumps(row) + "\n")
    code, said = await typed(deployment, "import", str(rows))
    assert (code, said) == (0, "1 rows: 1 duplicate\n")
    await typed(deployment, "sweep")
    await deployment.wait_for_row(effect, lambda row: row.state is State.SETTLED)
    code, said = await typed(deployment, *given)
    assert code == 0, said
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
