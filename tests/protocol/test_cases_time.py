"""Cases from the field in which time tempts: late facts, expired keys, outages, deadlines, accepted work."""

from __future__ import annotations

import asyncio
import copy

from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.errors import CommandRefused, NotFound
from ascertain.testing.knob import Answer, Drop, JobKnobs, Knobs, LookupKnobs, Rule, SubmitKnobs
from drill.points import Point
from tests.protocol.deployment import step
from tests.protocol.kinds import MORTAL
from tests.waiting import wait_until

DOWN = LookupKnobs(reply=Answer(status=503, body={}))
LOST = SubmitKnobs(reply=Drop(how="reset"))


def with_kind(deployment, name, like, *, options=(), **semantics):
    """Add a kind that differs from another one in this."""
    made = copy.deepcopy(deployment.settings["kinds"][like])
    made["options"].update(options)
    made["semantics"].update(semantics)
    deployment.settings["kinds"][name] = made
    deployment.configure()


async def lookups(deployment, effect, count):
    await deployment.outside.books.wait_for("lookup", count, reference=effect, within_s=80)


async def test_an_empty_lookup_before_the_lag_is_over_proves_nothing(deployments):
    deployment = await deployments()
    with_kind(deployment, "toy.lagged", "toy.asked", lag=5)
    deployment.outside.rules.knobs = Knobs(lookup=LookupKnobs(lag_s=1.5))
    deployment.meet(LOST)
    await deployment.worker()
    effect = await deployment.submit("lag", step(kind="toy.lagged"))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.UNKNOWN)
    await lookups(deployment, effect, 1)
    assert (await deployment.result("lag")).outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
    assert row.version == 2


async def test_after_the_lag_what_no_key_protects_is_not_sent_again_by_itself(deployments):
    deployment = await deployments()
    with_kind(deployment, "toy.lagged", "toy.asked", lag=1)
    deployment.outside.rules.knobs = Knobs(lookup=LookupKnobs(lag_s=3600))
    deployment.meet(LOST)
    await deployment.worker()
    effect = await deployment.submit("late", step(kind="toy.lagged"))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    assert row.error_class == "absent_unprotected"
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def test_a_key_that_protects_no_more_is_not_used_to_ask(deployments):
    deployment = await deployments(policy=MORTAL)
    with_kind(deployment, "toy.short", "toy.keyed", idempotent_for=3, key_margin=1)
    doomed = await deployment.worker(deployment.plan(Point.AFTER_ANSWER))
    effect = await deployment.submit("expired", step(kind="toy.short"))
    await doomed.process.wait()
    await deployment.wait_for_row(effect, lambda row: row.now > row.resend_until)
    await deployment.worker()
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    assert row.error_class == "key_expired"
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def test_a_pause_that_outlives_the_key_ends_with_a_question_and_no_second_request(
    deployments,
):
    deployment = await deployments(policy=MORTAL)
    with_kind(deployment, "toy.short", "toy.asked", idempotent_for=3, key_margin=1)
    deployment.outside.rules.add(Rule(lookup=DOWN))
    deployment.meet(LOST)
    await deployment.worker()
    effect = await deployment.submit("expired", step(kind="toy.short"), partition="keys")
    await deployment.wait_for_row(effect, lambda row: row.state is State.UNKNOWN)
    await deployment.gate("keys", paused=True)
    await deployment.wait_for_row(effect, lambda row: row.now > row.resend_until)
    deployment.outside.rules.clear()
    await deployment.gate("keys", paused=False)
    assert (await deployment.result("expired")).outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
    assert (await deployment.moves(effect))[-1] == "find"


async def test_while_an_outside_cannot_be_asked_nobody_is_failed_sent_again_or_sent_to_review(
    deployments,
):
    deployment = await deployments()
    await deployment.worker()
    deployment.outside.rules.add(Rule(lookup=DOWN))
    names = [f"outage-{number}" for number in range(12)]
    effects = [deployment.effect(name) for name in names]
    done = effects[:7]
    for effect in effects:
        commit = 0.0 if effect in done else "never"
        lost = SubmitKnobs(commit=commit, reply=Drop(how="reset"))
        deployment.outside.rules.add(Rule(times=1, submit=lost, key=effect))
    await asyncio.gather(*(deployment.submit(name, step(kind="toy.asked")) for name in names))
    await asyncio.gather(*(lookups(deployment, effect, 3) for effect in effects))
    assert {row.state for row in await deployment.rows()} == {State.UNKNOWN}
    assert [deployment.submits(effect) for effect in effects] == [1] * 12
    deployment.outside.rules.clear()
    await asyncio.gather(*(deployment.result(name) for name in names))
    assert [deployment.facts(effect) for effect in effects] == [1] * 12
    assert [deployment.submits(effect) for effect in effects] == [1] * 7 + [2] * 5


async def test_age_alone_proves_nothing_and_frees_nothing(deployments):
    deployment = await deployments(policy=MORTAL)
    deployment.outside.rules.add(Rule(lookup=DOWN))
    doomed = await deployment.worker(deployment.plan(Point.AFTER_ANSWER))
    steps = (step("hold", "toy.asked"), step("free", "toy.asked"))
    effect = await deployment.submit("old", *steps)
    await doomed.process.wait()
    await deployment.age(effect)
    await deployment.worker()
    await lookups(deployment, effect, 1)
    row = await deployment.row(effect)
    assert row.state in {State.IN_FLIGHT, State.UNKNOWN}
    assert await deployment.ledger.inspect(deployment.effect("old", "free")) is None
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
    deployment.outside.rules.clear()
    assert (await deployment.result("old")).outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def test_accepted_work_is_waited_for_by_its_job_and_never_bought_twice(deployments):
    deployment = await deployments()
    job = {
        "url": "/jobs/{job_id}",
        "match": {"key": "{effect_id}"},
        "external_id": "fact.id",
        "state": "status",
        "found": ["succeeded"],
        "pending": ["running"],
        "refused": ["failed"],
    }
    with_kind(
        deployment, "toy.job", "toy.asked", options={"accepted": {"job_id": "job_id"}, "job": job}
    )
    timeline = ((0.0, "not_found"), (1.0, "running"), (4.0, "succeeded"))
    deployment.meet(SubmitKnobs(job=JobKnobs(timeline=timeline)))
    await deployment.worker()
    effect = await deployment.submit("job", step(kind="toy.job"))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.ACCEPTED)
    assert row.job_id
    assert (await deployment.result("job")).outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def test_a_command_in_the_last_second_is_applied_once_or_refused(deployments):
    deployment = await deployments()
    worker = await deployment.worker()
    names = [f"last-{number}" for number in range(6)]
    for name in names:
        lost = SubmitKnobs(commit=0.0, reply=Drop(how="reset"))
        deployment.outside.rules.add(Rule(times=1, submit=lost, key=deployment.effect(name)))
    await asyncio.gather(*(deployment.submit(name, step(kind="toy.asked")) for name in names))
    for name in names:
        await _takes_twice(deployment, name)

    async def settled_or_taken():
        states = {row.state for row in await deployment.rows()}
        return states <= {State.SETTLED, State.TAKEN_OVER}

    await wait_until(settled_or_taken)
    for name in names:
        moves = await deployment.moves(deployment.effect(name))
        assert moves.count("take") + ("find" in moves) == 1
        assert deployment.facts(deployment.effect(name)) == 1
    assert "TMPRL1102" not in worker.log.read_text(), "a run ended before a handler of it had"


async def _takes_twice(deployment, name):
    row = await deployment.wait_for_row(deployment.effect(name), lambda row: row.version >= 2)
    take = Command(
        action=Action.TAKE,
        operator="ada",
        reason="now",
        version=row.version,
        override=True,
        request_id=f"take-{name}",
    )
    for _ in range(2):
        try:
            await deployment.takeover(name, take)
        except (CommandRefused, NotFound):
            return
