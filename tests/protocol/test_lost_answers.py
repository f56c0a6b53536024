"""What becomes of an effect whose answer is lost, wrong, late or misleading."""

from __future__ import annotations

import pytest

from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import (
    Answer,
    CutOff,
    Dedupe,
    Drop,
    Knobs,
    Rule,
    Silence,
    SubmitKnobs,
)
from tests.protocol.deployment import step


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
    deployment.meet(SubmitKnobs(commit=1.0, reply=body))
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


@pytest.mark.parametrize("retry_after", ["-5", "0.493", "999999", "soon", None])
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
