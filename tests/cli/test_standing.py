"""What is said of the fact outside, and of why it was or was not done again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ascertain import policy
from ascertain.cli import standing, story, wording
from ascertain.cli.known import KnownEffect
from ascertain.contracts.effect import ABSENT_KEYED, Receipt, State
from ascertain.contracts.epoch import EpochRequest
from ascertain.contracts.finding import Absent, Differs, Several
from ascertain.contracts.task import StepResult, TaskOutcome, TaskResult
from ascertain.machine import Move
from tests.cli.cases import (
    EFFECT,
    START,
    TASK,
    Night,
    decide,
    done,
    found,
    lost,
    never_left,
    quarantine,
    text,
)
from tests.core.rows import row
from tests.ledger.steps import accepted, refused, request, settled


async def test_a_lost_answer_that_was_found_is_told_with_its_evidence():
    night = Night()
    await night.attempt(lost())
    night.later(1)
    await night.finding(found())
    told = text(await night.known("COMPLETED", result=done()))
    assert "Attempt 1 may or may not have happened: no answer within 2 s." in told
    assert "The outside was asked and has it as fact-9." in told
    assert "It was sent once and never repeated." in told


async def test_an_attempt_that_never_left_us_is_told_so():
    night = Night()
    await night.attempt(never_left())
    told = text(await night.known(doing="retry_in"))
    assert "provably did nothing, because it never left us: the name does not resolve." in told
    assert "will try step charge again, because it provably did not happen" in told
    assert "It is tried again in 2 seconds." in told


async def test_a_dead_worker_is_told_and_its_attempt_stays_in_doubt():
    night = Night()
    await night.attempt()
    open_case = text(await night.known(doing="perform"))
    assert (
        "An attempt may be on its way outside right now; it may send until 03:00:03 UTC"
        in open_case
    )
    night.later(60)
    before = await night.row()
    assert "has not reported back" in text(await night.known(doing="perform"))
    await night.ledger.fence(EFFECT, before.version, "host-2:88")
    told = text(await night.known(doing="reconcile_in"))
    assert "Attempt 1 never reported back (its worker died, froze or was cut off), so its" in told


async def test_accepted_work_is_told_with_its_job():
    night = Night()
    await night.attempt(accepted("job-7"))
    told = text(await night.known(doing="reconcile_in"))
    assert "The outside took it as job job-7 and works on it. It is never sent again" in told


async def test_a_refusal_is_told_as_nothing_happened():
    night = Night()
    await night.attempt(refused())
    result = TaskResult(
        task_id=TASK,
        outcome=TaskOutcome.REFUSED,
        steps=(StepResult(step="charge", effect_id=EFFECT, state=State.REFUSED),),
    )
    told = text(await night.known("COMPLETED", result=result))
    assert told.startswith(f"Task {TASK} was refused: the outside said no to a step.")
    assert "The outside said no for good. Nothing happened." in told


async def test_a_second_attempt_is_told_with_the_proof_that_allowed_it():
    night = Night()
    await night.attempt(lost())
    night.later(60)
    await night.finding(Absent())
    night.later(60)
    await night.attempt(settled("fact-9"), by="host-2:88")
    told = text(await night.known("COMPLETED", result=done()))
    assert "Attempt 2 was allowed because the one before provably did nothing: absent in a" in told
    assert "never repeated" not in told


async def test_a_same_key_re_send_is_told_to_be_a_question_and_no_second_try():
    night = Night(lookup=None)
    await night.attempt(lost(), resend_for=timedelta(hours=1))
    await night.attempt(settled("fact-9"), resend_for=timedelta(hours=1), resend=True)
    told = text(await night.known("COMPLETED", result=done()))
    assert "Attempt 2 was no second try: the outside recognises the key" in told


@pytest.mark.parametrize("state", State)
def test_every_state_has_its_words(state):
    said = standing.of_row(row(state))
    assert said.endswith(".")
    assert state.value not in said


async def test_a_second_attempt_on_a_persons_word_is_not_told_as_proved():
    night = Night(lookup=None)
    await night.attempt(lost())
    await quarantine(night)
    await decide(night, Move.DENY, State.CLEAR, "they say no", error_class=wording.DENIED)
    told = text(await night.known(doing="retry_in"))
    assert "will try step charge again, because a person stated that it did not happen" in told
    assert "A person stated that it does not exist outside, so it may be done." in told
    await night.attempt(settled("fact-9"))
    told = text(await night.known("COMPLETED", result=done()))
    assert "Attempt 2 was allowed because ada stated that the one before did not happen." in told
    assert "provably did nothing" not in told


async def used_up(night: Night, *, budget: int, outcome) -> None:
    """Attempts until no more are allowed, each with this outcome."""
    for _ in range(budget):
        await night.attempt(outcome, budget=budget)
        night.later(60)
    await night.ledger.claim(request(owner="host-3:99/c0ffee", budget=budget))
    assert (await night.row()).state is State.QUARANTINED


async def test_a_used_up_budget_of_attempts_that_did_nothing_is_not_told_as_doubt():
    night = Night()
    await used_up(night, budget=3, outcome=never_left())
    known = await night.known(doing="quarantined")
    told = text(known)
    assert "It provably does not exist outside, and its budget of attempts is used up" in told
    assert "Automation stopped after attempt 3, the last that its budget of 3 allowed." in told
    assert (
        "It is not done again, because its budget of attempts is used up; each of its attempts provably "
        "did nothing." in told
    )
    for contradiction in ("not proved", "nothing proves", "may or may not", "is proven to have"):
        assert contradiction not in told
    (effect,) = known.effects
    assert standing.attempts(effect) == "3"
    await decide(night, Move.TAKE, State.TAKEN_OVER, "on it")
    told = text(await night.known(doing="taken_over"))
    assert "It is not done again, because ada has it; each of its attempts provably" in told


async def test_attempts_after_an_order_to_retry_are_counted_alike_everywhere():
    night = Night()
    await used_up(night, budget=2, outcome=never_left())
    await decide(night, Move.RETRY, State.UNKNOWN, "the provider is back")
    night.later(60)
    await night.finding(Absent())
    night.later(60)
    await used_up(night, budget=2, outcome=never_left())
    known = await night.known(doing="quarantined")
    (effect,) = known.effects
    assert standing.attempts(effect) == "4, 2 of them in its budget"
    assert "Automation stopped after attempt 4, the last that its budget of 2 allowed." in text(
        known
    )


async def test_a_used_up_budget_is_told_also_after_the_outside_was_asked_again():
    night = Night(in_flight_max=timedelta(minutes=5))
    await used_up(night, budget=3, outcome=never_left())
    row = await night.row()
    last = policy.judge(row, Absent(), night.kind)
    assert isinstance(last, policy.StillOpen)
    night.later(600)
    told = text(await night.known(doing="quarantined", why=last.reason, looked=row))
    assert "its budget of 3 attempts is used up; last look at 2026-03-04 03:03:01 UTC: the" in told
    assert "It provably does not exist outside, and its budget of attempts is used up" in told
    assert "not visible yet" not in told
    assert "conclusive" not in told


async def test_a_used_up_budget_of_questions_stays_a_doubt():
    night = Night(lookup=None)
    hour = timedelta(hours=1)
    await night.attempt(lost(), resend_for=hour, budget=2)
    await night.attempt(lost(), resend_for=hour, budget=2, resend=True)
    night.later(1)
    again = request(owner="host-3:99/c0ffee", resend_for=hour, budget=2, resend=True)
    await night.ledger.claim(again)
    told = text(await night.known(doing="quarantined"))
    assert "It is not proved whether it exists outside" in told
    assert "Automation stopped after attempt 2, the last that its budget of 2 allowed." in told
    assert "nothing proves that attempt 2 did not happen" in told


async def test_absence_that_rests_on_a_key_is_not_called_proven_once_nothing_is_sent_under_it():
    night = Night()
    await used_up(night, budget=1, outcome=never_left())
    (effect,) = (await night.known()).effects
    claim, clear, stop = effect.trail
    keyed = clear.model_copy(
        update={"evidence": clear.evidence.model_copy(update={"rule": ABSENT_KEYED})}
    )
    late = stop.model_copy(
        update={"move": wording.REFUSED_WRITE, "receipt": Receipt(external_id="fact-9")}
    )
    assert effect.proven_absent
    assert not KnownEffect(effect.row, (claim, keyed, stop)).proven_absent
    assert not KnownEffect(effect.row, (claim, clear, stop, late)).proven_absent
    assert not KnownEffect(effect.row, (claim, clear)).proven_absent
    assert not KnownEffect(effect.row, ()).proven_absent


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (Several(external_ids=("a", "b")), "Several facts outside carry its id"),
        (
            Differs(external_id="f-1", expected={"sum": 5}, found={"sum": 6}),
            "The fact outside that carries its id is not what was asked for",
        ),
    ],
)
async def test_a_fact_that_is_there_is_not_told_as_if_nobody_knew_of_one(finding, said):
    night = Night()
    await night.attempt(lost())
    night.later(60)
    await night.finding(finding)
    told = text(await night.known(doing="quarantined"))
    assert said in told
    assert "It is not proved whether it exists" not in told


async def test_what_the_outside_took_is_not_done_again_because_it_took_it():
    night = Night()
    await night.attempt(accepted("job-7"))
    told = text(await night.known(doing="reconcile_in"))
    assert "It is not done again, because the outside took attempt 1." in told
    assert "nothing proves" not in told


async def forgotten(night: Night) -> None:
    """An effect that a restored ledger does not know, claimed once after the restore."""
    since = EpochRequest(
        since=START - timedelta(hours=1), by="ada", reason="the disk broke", request_id="e-1"
    )
    await night.ledger.raise_epoch(since)
    await night.ledger.claim(request(owner="host-1:77/c0ffee"))


async def test_what_a_restored_ledger_forgot_is_told_as_that_and_as_no_attempt_of_a_worker():
    night = Night(lookup=None)
    await forgotten(night)
    at_once = text(await night.known(doing="reconcile_in"))
    assert "The ledger was restored and may have forgotten it. It may or may not exist" in at_once
    await night.ledger.fence(EFFECT, (await night.row()).version, "host-2:88")
    in_doubt = text(await night.known(doing="reconcile_in"))
    assert "because the ledger was restored and may have forgotten it. That time has" in in_doubt
    assert (await night.row()).error_class == "restored"
    await quarantine(night)
    known = await night.known(doing="quarantined")
    told = text(known)
    assert "Automation stopped: the ledger was restored and may have forgotten it: it may" in told
    assert (await night.row()).error_class == "restored"
    (effect,) = known.effects
    assert standing.attempts(effect) == "1, 1 only because of a restore"
    for wrong in ("reported back", "attempt 1 did not happen", "was permitted"):
        assert wrong not in at_once + in_doubt + told


async def test_what_is_found_after_a_restore_is_not_said_to_have_been_sent_here():
    night = Night()
    await forgotten(night)
    await night.ledger.fence(EFFECT, (await night.row()).version, "host-2:88")
    await night.finding(found())
    told = text(await night.known("COMPLETED", result=done()))
    assert "Nothing was sent here: the ledger was restored and may have forgotten it, and" in told
    assert "sent once" not in told


async def test_what_is_done_after_a_restore_was_allowed_by_the_proof_and_not_by_the_restore():
    night = Night()
    await night.attempt(never_left())
    night.later(60)
    await forgotten(night)
    await night.ledger.fence(EFFECT, (await night.row()).version, "host-2:88")
    night.later(60)
    await night.finding(Absent())
    night.later(60)
    await night.attempt(settled("fact-9"))
    told = text(await night.known("COMPLETED", result=done()))
    assert "Attempt 2 was allowed" not in told
    assert "Attempt 3 was allowed because the one before provably did nothing: absent" in told


async def taken_back(state: State) -> str:
    """A settled step whose undo stands in this state."""
    night = Night()
    await night.attempt(settled("fact-9"))
    known = await night.known("COMPLETED", result=done())
    (effect,) = known.effects
    fields = {"effect_id": "ef1-2", "step": f"{effect.row.step}~undo", "state": state}
    undo = KnownEffect(effect.row.model_copy(update={**fields, "external_id": "fact-10"}), ())
    return story.tell(replace(known, effects=(effect, undo))).chapters[1].lines[0]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            State.SETTLED,
            "It existed outside as fact-9 and was taken back: step charge~undo, fact-10.",
        ),
        (
            State.REFUSED,
            "It exists outside as fact-9. Taking it back was refused: step charge~undo.",
        ),
        (State.ABANDONED, "It exists outside as fact-9. Taking it back was given up: step"),
        (State.UNKNOWN, "It exists outside as fact-9. It is being taken back: step charge~undo is"),
        (State.SUPERSEDED, "It exists outside as fact-9."),
    ],
)
async def test_a_step_says_what_became_of_taking_it_back(state, said):
    assert (await taken_back(state)).startswith(said)
