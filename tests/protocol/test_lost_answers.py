"""What becomes of an effect whose answer is lost, wrong, late or misleading."""

from __future__ import annotations

import asyncio

import pytest

from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.errors import InvalidTask
from ascertain.testing.knob import (
    Answer,
    CutOff,
    Dedupe,
    Drop,
    Knobs,
    LookupKnobs,
    Rule,
    Silence,
    SubmitKnobs,
)
from drill.points import Point
from tests.protocol.deployment import step
from tests.protocol.kinds import MORTAL, POLICY
from tests.waiting import wait_until

PAST = "Wed, 21 Oct 2015 07:28:00 GMT"


async def run(deployment, task_id, kind="toy.asked", **content):
    effect = await deployment.submit(task_id, step(kind=kind, **content))
    result = await deployment.result(task_id)
    return effect, result


async def test_a_lost_answer_is_found_by_lookup_and_never_sent_again(deployments):
    deployment = await deployments()
    await deployment.worker()
    deployment.meet(SubmitKnobs(commit=0.3, reply=Silence(seconds=30)))
    effect, result = await run(deployment, "lost")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
    assert await deployment.moves(effect) == ["claim", "doubt", "find"]


async def test_an_answer_lost_for_a_request_that_did_nothing_is_proved_absent_and_sent_once_more(
    deployments,
):
    deployment = await deployments()
    await deployment.worker()
    deployment.meet(SubmitKnobs(commit="never", reply=Silence(seconds=30)))
    effect, result = await run(deployment, "lost")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (2, 1)
    assert await deployment.moves(effect) == ["claim", "doubt", "find_absent", "claim", "settle"]


@pytest.mark.parametrize("commit", ["never", 0.0])
async def test_a_reset_without_a_reply_byte_is_doubt_whatever_the_server_did(deployments, commit):
    deployment = await deployments()
    await deployment.worker()
    deployment.meet(SubmitKnobs(commit=commit, reply=Drop(how="reset")))
    effect, result = await run(deployment, "reset")
    assert result.outcome is TaskOutcome.DONE
    assert deployment.facts(effect) == 1
    assert (await deployment.moves(effect))[1] == "doubt"
    assert deployment.submits(effect) == (2 if commit == "never" else 1)


@pytest.mark.parametrize("status", [408, 499, 500, 502, 503, 504])
async def test_a_gateway_that_gave_up_proves_nothing(deployments, status):
    deployment = await deployments()
    await deployment.worker()
    body = Answer(status=status, text="<html>gave up</html>")
    # Well within what is declared as in flight at the most, also where this process is late.
    deployment.meet(SubmitKnobs(commit=0.4, reply=body))
    effect, result = await run(deployment, "gateway")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


@pytest.mark.parametrize(
    "reply",
    [
        Answer(status=200, body={"error": "internal"}),
        CutOff(answer=Answer(status=200, pad_bytes=100), keep_bytes=20),
        Answer(status=200, text=""),
    ],
    ids=["error document", "cut off", "empty"],
)
@pytest.mark.parametrize("commit", ["never", 0.0])
async def test_a_success_status_without_proof_settles_nothing(deployments, reply, commit):
    deployment = await deployments()
    await deployment.worker()
    deployment.meet(SubmitKnobs(commit=commit, reply=reply))
    effect, result = await run(deployment, "false-success")
    assert result.outcome is TaskOutcome.DONE
    assert deployment.facts(effect) == 1
    assert (await deployment.moves(effect))[1] == "doubt"


async def test_exists_already_is_neither_failure_nor_proof_until_it_is_looked_up(deployments):
    deployment = await deployments()
    await deployment.worker()
    deployment.outside.rules.knobs = Knobs(dedupe=Dedupe(unique_reference=409))
    deployment.meet(SubmitKnobs(commit=0.0, reply=Answer(status=409, body={"error": "exists"})))
    effect, result = await run(deployment, "exists")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def test_a_fact_under_our_reference_that_differs_goes_to_a_person_with_both_values(
    deployments,
):
    deployment = await deployments()
    await deployment.worker()
    effect = deployment.effect("differs")
    deployment.make_fact(effect, amount=999)
    deployment.meet(SubmitKnobs(commit="never", reply=Answer(status=409, body={"error": "x"})))
    await deployment.submit("differs", step(kind="toy.asked"))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    assert row.error_class == "differs"
    assert row.evidence.body["expected"] != row.evidence.body["found"]


async def test_a_key_in_flight_means_that_our_own_attempt_is_still_open(deployments):
    deployment = await deployments(policy={"budget": 10, "retry_base": 0.5})
    await deployment.worker()
    slow = SubmitKnobs(commit=4.0, reply=Silence(seconds=30))
    deployment.keyed.rules.knobs = Knobs(dedupe=Dedupe(by="key", in_flight="conflict"))
    deployment.keyed.rules.add(Rule(times=1, submit=slow))
    effect, result = await run(deployment, "in-flight", kind="toy.keyed")
    assert result.outcome is TaskOutcome.DONE
    assert deployment.facts(effect) == 1


async def test_a_key_that_stays_in_flight_ends_with_a_person_and_never_with_a_second_fact(
    deployments,
):
    deployment = await deployments(policy={"budget": 3})
    await deployment.worker()
    deployment.keyed.rules.add(
        Rule(submit=SubmitKnobs(commit="never", reply=Answer(status=409, body={"error": "x"})))
    )
    effect = await deployment.submit("for-ever", step(kind="toy.keyed"))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    assert row.error_class == "budget"
    assert deployment.facts(effect) == 0


async def test_the_bytes_are_frozen_before_the_first_send_and_identical_later(deployments):
    deployment = await deployments()
    await deployment.worker()
    deployment.meet(*[SubmitKnobs(commit="never", reply=Silence(seconds=30))] * 2)
    effect, result = await run(deployment, "frozen")
    submits = deployment.outside.books.submits_of(effect)
    assert result.outcome is TaskOutcome.DONE
    assert len(submits) == 3
    assert len({(submit.key, submit.sha256) for submit in submits}) == 1


@pytest.mark.parametrize("retry_after", ["-5", "0.493", "999999", "soon", None, PAST])
async def test_a_throttled_effect_waits_a_sane_time_and_is_done_once(deployments, retry_after):
    deployment = await deployments()
    await deployment.worker()
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    throttled = SubmitKnobs(commit="never", reply=Answer(status=429, headers=headers, body={}))
    deployment.meet(throttled)
    effect = await deployment.submit("throttled", step(kind="toy.throttling"))
    if retry_after == "999999":
        row = await deployment.wait_for_row(effect, lambda row: row.state is State.CLEAR)
        assert row.retry_at is not None
        assert 0 < (row.retry_at - row.now).total_seconds() < 3600
        return
    result = await deployment.result("throttled")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (2, 1)
    assert await deployment.moves(effect) == ["claim", "clear", "claim", "settle"]


async def test_fifty_throttled_effects_wait_and_another_partition_goes_on_meanwhile(deployments):
    deployment = await deployments(policy={"retry_base": 8})
    await deployment.worker()
    throttled = SubmitKnobs(commit="never", reply=Answer(status=429, body={}))
    slow = [f"slow-{number}" for number in range(50)]
    for name in slow:
        rule = Rule(key=deployment.effect(name), times=1, submit=throttled)
        deployment.outside.rules.add(rule)
    seen = {}

    async def all_seen():
        # From the beginning on: the first may be done again before the last has begun.
        for row in await deployment.rows():
            if row.state is State.CLEAR:
                seen.setdefault(row.effect_id, row)
        return len(seen) == len(slow)

    watching = asyncio.create_task(wait_until(all_seen, 120))
    effects = [
        await deployment.submit(name, step(kind="toy.throttling"), partition="p") for name in slow
    ]
    await watching
    waiting = [seen[effect] for effect in effects]
    assert len({row.retry_at - row.state_since for row in waiting}) == len(waiting)
    free = await deployment.submit("free", step(kind="toy.throttling"), partition="q")
    assert (await deployment.result("free")).outcome is TaskOutcome.DONE
    assert deployment.facts(free) == 1
    results = [await deployment.result(name) for name in slow]
    assert {result.outcome for result in results} == {TaskOutcome.DONE}
    counts = [(deployment.submits(effect), deployment.facts(effect)) for effect in effects]
    assert counts == [(2, 1)] * len(slow)
    for row in waiting:
        second = deployment.outside.books.submits_of(row.effect_id)[1]
        assert second.at >= row.retry_at


async def test_a_refusal_for_good_closes_the_task_without_a_fact(deployments):
    deployment = await deployments()
    await deployment.worker()
    deployment.meet(SubmitKnobs(commit="never", reply=Answer(status=400, body={"error": "no"})))
    effect, result = await run(deployment, "refused")
    assert result.outcome is TaskOutcome.REFUSED
    assert deployment.facts(effect) == 0


async def test_an_answer_too_large_to_keep_still_settles_once(deployments):
    deployment = await deployments()
    await deployment.worker()
    deployment.meet(SubmitKnobs(reply=Answer(pad_bytes=5_000_000)))
    effect, result = await run(deployment, "large")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
    assert len(result.model_dump_json()) < 10_000


async def test_an_answer_that_is_no_text_settles_nothing_and_breaks_nothing(deployments):
    deployment = await deployments()
    await deployment.worker()
    garbled = Answer(status=201, text="\xff\xfe\xe9", encoding="latin-1")
    deployment.meet(SubmitKnobs(reply=garbled))
    effect, result = await run(deployment, "garbled")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def test_an_error_text_of_three_megabytes_settles_once_and_stays_outside_of_the_history(
    deployments,
):
    deployment = await deployments()
    deployment.settings["kinds"]["toy.odd"] = {
        "adapter": "tests.protocol.odd_adapter:create",
        "options": {"way": "raises at length", "url": deployment.outside.url},
        "policy": POLICY,
    }
    deployment.configure()
    await deployment.worker()
    effect, result = await run(deployment, "wordy", kind="toy.odd")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
    history = await deployment.handle("wordy").fetch_history()
    assert len(history.to_json()) < 100_000


async def test_an_input_of_three_megabytes_is_refused_at_the_door(deployments):
    deployment = await deployments()
    await deployment.worker()
    with pytest.raises(InvalidTask, match="bytes"):
        await deployment.submit("heavy", step(kind="toy.asked", text="x" * 3_000_000))
    assert await deployment.rows() == []
    assert deployment.outside.books.facts == []


async def test_a_second_attempt_that_meets_our_own_first_one_is_looked_up_and_settled(deployments):
    deployment = await deployments(policy=MORTAL)
    deployment.outside.rules.knobs = Knobs(dedupe=Dedupe(unique_reference=409))
    # It shows its fact later than it says, so that the first attempt is taken for absent.
    deployment.outside.rules.add(Rule(lookup=LookupKnobs(lag_s=3600)))
    doomed = await deployment.worker(deployment.plan(Point.AFTER_ANSWER))
    effect = await deployment.submit("again", step(kind="toy.asked"))
    await doomed.process.wait()
    await deployment.worker()
    await deployment.outside.books.wait_for("submit", key=effect, count=2, within_s=80)
    deployment.outside.rules.clear()
    assert (await deployment.result("again")).outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (2, 1)


async def test_a_second_attempt_that_meets_what_is_not_ours_goes_to_a_person_with_both_values(
    deployments,
):
    deployment = await deployments(policy=MORTAL)
    deployment.outside.rules.knobs = Knobs(dedupe=Dedupe(unique_reference=409))
    doomed = await deployment.worker(deployment.plan(Point.BEFORE_SEND))
    effect = await deployment.submit("foreign", step(kind="toy.asked"))
    await doomed.process.wait()
    made = deployment.make_fact(effect, amount=999)
    await deployment.worker()
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    assert row.error_class == "differs"
    assert row.evidence.body["external_id"] == made.id
    assert (row.evidence.body["expected"], row.evidence.body["found"]) == (
        {"amount": 1},
        {"amount": 999},
    )
    assert (deployment.submits(effect), deployment.facts(effect)) == (0, 1)


async def test_a_key_in_flight_for_ever_ends_with_a_person_who_sees_what_a_lookup_counted(
    deployments,
):
    deployment = await deployments(policy={"budget": 2})
    await deployment.worker()
    deployment.keyed.rules.add(
        Rule(submit=SubmitKnobs(commit="never", reply=Answer(status=409, body={"error": "x"})))
    )
    effect = await deployment.submit("for-ever", step(kind="toy.asked_keyed"))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    assert row.error_class == "budget"
    moves = await deployment.moves(effect)
    assert moves == ["claim", "doubt", "find_absent"] * 2 + ["quarantine"]
    assert deployment.facts(effect) == 0


async def test_what_a_person_makes_by_hand_while_an_attempt_is_in_flight_is_found_and_linked(
    deployments,
):
    deployment = await deployments()
    await deployment.worker()
    deployment.meet(SubmitKnobs(commit="never", reply=Silence(seconds=30)))
    effect = await deployment.submit("two-hands", step(kind="toy.slow"))
    await deployment.outside.books.wait_for("submit", key=effect)
    made = deployment.make_fact(effect, amount=1)
    assert (await deployment.result("two-hands")).outcome is TaskOutcome.DONE
    assert (await deployment.row(effect)).external_id == made.id
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
