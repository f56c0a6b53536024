"""The declared adapter against a real server with its own books."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ascertain.contracts import finding, outcome
from ascertain.errors import LookupDown
from ascertain.testing.knob import (
    Answer,
    CutOff,
    Dedupe,
    Drop,
    JobKnobs,
    Knobs,
    LookupKnobs,
    RateLimit,
    Silence,
    SubmitKnobs,
)
from tests.adapters.calls import WITHIN, call
from tests.adapters.notes import EFFECT, OPTIONS, adapter_for, lookup, perform

if TYPE_CHECKING:
    from ascertain.adapters.declared import DeclaredAdapter
    from ascertain.testing.outside import Outside


def submit(**knobs: Any) -> Knobs:
    return Knobs(submit=SubmitKnobs(**knobs))


async def test_a_proved_answer_settles_with_a_receipt(outside: Outside, adapter: DeclaredAdapter):
    came_to = await perform(adapter)
    assert isinstance(came_to, outcome.Settled)
    (fact,) = outside.books.facts
    assert came_to.receipt.external_id == fact.id
    assert came_to.receipt.happened_at == fact.committed_at
    assert came_to.receipt.body == {
        "reference": EFFECT.effect_id,
        "status": "succeeded",
        "amount": 1999,
    }
    assert came_to.receipt.digest is not None
    assert fact.content == {"reference": EFFECT.effect_id, "text": "hello", "amount": 1999}
    assert outside.books.submits[0].key == EFFECT.effect_id


async def test_a_lookup_finds_what_was_done(outside: Outside, adapter: DeclaredAdapter):
    await perform(adapter)
    found = await lookup(adapter)
    assert isinstance(found, finding.Found)
    assert found.receipt.external_id == outside.books.facts[0].id


async def test_what_was_not_done_is_absent(adapter: DeclaredAdapter):
    assert isinstance(await lookup(adapter), finding.Absent)


@pytest.mark.parametrize(
    ("reply", "error_class"),
    [
        (Drop(), "connection_lost"),
        (Drop(how="close"), "connection_lost"),
        (CutOff(keep_bytes=3), "answer_cut_off"),
        (Answer(status=200, text=""), "success_without_proof"),
        (Answer(status=200, body={"error": {"code": "internal"}}), "success_without_proof"),
        (Answer(status=200, text="\xff\xfe", encoding="latin-1"), "success_without_proof"),
        (Answer(pad_bytes=5_000_000), "success_without_proof"),
        *[
            (Answer(status=status, text="<html>bad gateway</html>"), f"http_{status}")
            for status in (302, 408, 425, 499, 500, 502, 503, 504)
        ],
    ],
)
async def test_a_lost_or_unproven_answer_is_unknown_and_a_lookup_finds_the_fact(
    outside: Outside, adapter: DeclaredAdapter, reply: Any, error_class: str
):
    outside.rules.knobs = submit(reply=reply)
    came_to = await perform(adapter)
    assert isinstance(came_to, outcome.Unknown)
    assert came_to.error_class == error_class
    assert isinstance(await lookup(adapter), finding.Found)
    assert len(outside.books.submits) == len(outside.books.facts) == 1


async def test_silence_is_unknown_and_a_lookup_finds_the_fact(outside: Outside):
    outside.rules.knobs = submit(reply=Silence(seconds=30))
    async with adapter_for(outside, timeout=1) as adapter:
        came_to = await perform(adapter)
        assert isinstance(came_to, outcome.Unknown)
        assert came_to.error_class == "silence"
        assert isinstance(await lookup(adapter), finding.Found)


@pytest.mark.parametrize("missing", [None, ""])
async def test_what_the_proof_requires_must_really_be_there(outside: Outside, missing: Any):
    body = {"id": "f", "etag": missing}
    outside.rules.knobs = submit(commit="never", reply=Answer(status=201, body=body))
    proof = {"external_id": "id", "require": ["etag"]}
    async with adapter_for(outside, proof=proof) as adapter:
        assert isinstance(await perform(adapter), outcome.Unknown)
        outside.rules.knobs = submit(reply=Answer(status=201, body=body | {"etag": "a"}))
        assert isinstance(await perform(adapter), outcome.Settled)


@pytest.mark.parametrize(("status", "kind"), [(201, outcome.Settled), (200, outcome.Unknown)])
async def test_only_the_named_success_statuses_prove(outside: Outside, status: int, kind: type):
    body = {"id": "f", "reference": EFFECT.effect_id, "status": "succeeded"}
    outside.rules.knobs = submit(commit="never", reply=Answer(status=status, body=body))
    async with adapter_for(outside, proof=OPTIONS["proof"] | {"statuses": [201]}) as adapter:
        assert isinstance(await perform(adapter), kind)


async def test_a_lookup_answer_that_was_not_read_whole_says_nothing(
    outside: Outside, adapter: DeclaredAdapter
):
    outside.rules.knobs = Knobs(lookup=LookupKnobs(reply=Answer(pad_bytes=2_000_000)))
    with pytest.raises(LookupDown, match="longer than 1048576 bytes"):
        await lookup(adapter)


async def test_a_false_success_is_not_believed(outside: Outside, adapter: DeclaredAdapter):
    outside.rules.knobs = submit(commit="never", reply=Answer(status=200, body={"error": {}}))
    came_to = await perform(adapter)
    assert isinstance(came_to, outcome.Unknown)
    assert isinstance(await lookup(adapter), finding.Absent)
    assert len(outside.books.facts) == 0


async def test_an_answer_about_another_effect_is_no_proof(
    outside: Outside, adapter: DeclaredAdapter
):
    answer = Answer(status=201, body={"id": "f", "reference": "other", "status": "succeeded"})
    outside.rules.knobs = submit(commit="never", reply=answer)
    assert isinstance(await perform(adapter), outcome.Unknown)


async def test_a_refusal_is_final_and_names_the_outsides_reason(
    outside: Outside, adapter: DeclaredAdapter
):
    reply = Answer(status=402, body={"error": {"code": "card_declined"}})
    outside.rules.knobs = submit(commit="never", reply=reply)
    came_to = await perform(adapter)
    assert isinstance(came_to, outcome.Refused)
    assert came_to.error_class == "card_declined"


@pytest.mark.parametrize("retry_after", ["-5", "0.493", "999999", "soon", None])
async def test_a_throttled_attempt_is_not_done(
    outside: Outside, adapter: DeclaredAdapter, retry_after: str | None
):
    outside.rules.knobs = Knobs(rate_limit=RateLimit(per_second=0, retry_after=retry_after))
    came_to = await perform(adapter)
    assert isinstance(came_to, outcome.NotDone)
    assert came_to.error_class == "throttled"
    assert came_to.retry_after is not None
    assert 1 <= came_to.retry_after.total_seconds() <= 300
    assert len(outside.books.facts) == 0


async def test_throttling_that_is_not_declared_is_unknown(outside: Outside):
    outside.rules.knobs = Knobs(rate_limit=RateLimit(per_second=0))
    async with adapter_for(outside, answers=[]) as adapter:
        assert isinstance(await perform(adapter), outcome.Unknown)


async def test_a_key_that_is_still_being_worked_on_is_our_own_attempt(outside: Outside):
    outside.rules.knobs = Knobs(
        submit=SubmitKnobs(commit=30), dedupe=Dedupe(by="key", in_flight="conflict")
    )
    async with adapter_for(outside, timeout=1) as adapter:
        first, again = await perform(adapter), await perform(adapter)
    assert isinstance(first, outcome.Unknown)
    assert isinstance(again, outcome.Unknown)
    assert again.error_class == "in_progress"
    assert "our own earlier attempt is still open" in again.evidence.detail


@pytest.mark.parametrize("status", [400, 409, 422])
async def test_another_body_under_our_key_is_told_apart(
    outside: Outside, adapter: DeclaredAdapter, status: Any
):
    outside.rules.knobs = Knobs(dedupe=Dedupe(by="key_and_body", mismatch_status=status))
    await perform(adapter)
    came_to = await perform(adapter, text="changed")
    assert isinstance(came_to, outcome.Unknown)
    assert came_to.error_class == "key_reused"
    assert len(outside.books.facts) == 1


@pytest.mark.parametrize("status", [409, 412, 422])
async def test_exists_already_means_look_up_and_compare(
    outside: Outside, adapter: DeclaredAdapter, status: Any
):
    outside.rules.knobs = Knobs(dedupe=Dedupe(unique_reference=status))
    await perform(adapter)
    came_to = await perform(adapter)
    assert isinstance(came_to, outcome.Unknown)
    assert came_to.error_class == "exists"
    assert isinstance(await lookup(adapter), finding.Found)


async def test_accepted_work_is_asked_for_by_its_job(outside: Outside, adapter: DeclaredAdapter):
    outside.rules.knobs = submit(job=JobKnobs(timeline=((0.0, "running"),)))
    came_to = await perform(adapter)
    assert isinstance(came_to, outcome.Accepted)
    job_id = came_to.job_id

    running = await lookup(adapter, job_id)
    assert isinstance(running, finding.Pending)
    outside._provider.set_job(job_id, "succeeded")
    done = await lookup(adapter, job_id)
    assert isinstance(done, finding.Found)
    assert done.receipt.external_id == outside.books.facts[0].id


async def test_a_failed_job_is_refused(outside: Outside, adapter: DeclaredAdapter):
    outside.rules.knobs = submit(job=JobKnobs(timeline=((0.0, "failed"),)))
    came_to = await perform(adapter)
    assert isinstance(came_to, outcome.Accepted)
    assert isinstance(await lookup(adapter, came_to.job_id), finding.Refused)


async def test_a_job_that_is_not_known_is_looked_up_by_reference(
    outside: Outside, adapter: DeclaredAdapter
):
    assert isinstance(await lookup(adapter, "job-gone"), finding.Absent)
    await perform(adapter)
    assert isinstance(await lookup(adapter, "job-gone"), finding.Found)


async def test_an_amount_that_differs_is_shown_on_both_sides(
    outside: Outside, adapter: DeclaredAdapter
):
    await perform(adapter, amount=1)
    found = await lookup(adapter)
    assert isinstance(found, finding.Differs)
    assert (found.expected, found.found) == ({"amount": 1999}, {"amount": 1})


async def test_two_facts_of_one_effect_are_several(outside: Outside, adapter: DeclaredAdapter):
    await perform(adapter)
    await perform(adapter)
    found = await lookup(adapter)
    assert isinstance(found, finding.Several)
    assert set(found.external_ids) == {fact.id for fact in outside.books.facts}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("running", finding.Pending),
        ("failed", finding.Refused),
        ("reversed", finding.Unknowable),
    ],
)
async def test_only_declared_states_close_an_effect(
    outside: Outside, adapter: DeclaredAdapter, status: str, kind: type
):
    outside.rules.knobs = submit(fact_status=status)
    await perform(adapter)
    assert isinstance(await lookup(adapter), kind)


@pytest.mark.parametrize(
    "reply",
    [
        Answer(status=503),
        Answer(status=404),
        Answer(status=429),
        Answer(status=401),
        Answer(status=302, headers={"Location": "/elsewhere"}),
        Answer(text="<html>"),
        Answer(text=""),
        Answer(body={"data": None}),
        Answer(body={"items": []}),
        Answer(pad_bytes=2_000_000),
        Drop(),
        CutOff(keep_bytes=5),
        Silence(seconds=30),
    ],
)
async def test_a_lookup_that_is_not_answered_says_nothing(outside: Outside, reply: Any):
    lookup_form = OPTIONS["lookup"] | {"absent": []}
    outside.rules.knobs = Knobs(lookup=LookupKnobs(reply=reply))
    async with adapter_for(outside, lookup=lookup_form) as adapter:
        asked = call(EFFECT, adapter.prepare(EFFECT))
        with pytest.raises(LookupDown):
            await adapter.lookup(asked, within=WITHIN / 10)


async def test_a_lookup_without_a_server_says_nothing(outside: Outside):
    async with adapter_for(outside, base_url="http://127.0.0.1:1") as adapter:
        with pytest.raises(LookupDown, match="never left us"):
            await lookup(adapter)
