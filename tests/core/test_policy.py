from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from activities import outlook
from ascertain import policy, wait
from ascertain.contracts import directive, finding, outcome
from ascertain.contracts.claim import Verdict
from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import Evidence, Receipt, State
from ascertain.contracts.epoch import RESTORED
from ascertain.contracts.replay import Outlook
from ascertain.contracts.semantics import LookupBy, Policy
from tests.core.rows import T0, kind, row, second

RECEIPT = Receipt(external_id="fact-1")
ABSENT = finding.Absent()
HORIZON = second(10)
DAY = timedelta(days=1)


def verdict(found, effect=None, served=None):
    answer = policy.judge(effect or row(), found, served or kind())
    assert isinstance(answer, Verdict), answer
    return answer


def still_open(found, effect=None, served=None):
    answer = policy.judge(effect or row(), found, served or kind())
    assert isinstance(answer, policy.StillOpen), answer
    return answer


@pytest.mark.parametrize("state", [State.UNKNOWN, State.ACCEPTED, State.QUARANTINED])
def test_a_found_fact_settles(state):
    answer = verdict(finding.Found(receipt=RECEIPT), row(state))
    assert (answer.state, answer.receipt) == (State.SETTLED, RECEIPT)


def test_an_empty_lookup_before_the_horizon_proves_nothing():
    answer = still_open(ABSENT, row(now=T0 + HORIZON - second(0.1)))
    assert "conclusive from 12:00:10" in answer.reason


def test_an_empty_read_after_write_lookup_past_the_horizon_clears():
    assert verdict(ABSENT, row(now=T0 + HORIZON)).state is State.CLEAR


def test_the_horizon_counts_from_the_last_possible_send_and_holds_the_lag():
    served = kind(lag=second(60))
    effect = row(lease_until=T0 + second(5), now=T0 + second(74))
    assert isinstance(policy.judge(effect, ABSENT, served), policy.StillOpen)
    assert wait.conclusive_at(effect, served) == T0 + second(75)


@pytest.mark.parametrize("rule", ["release", "retry"])
def test_what_a_person_let_go_of_may_have_been_done_by_hand_until_then(rule):
    let_go = Evidence(source="person", rule=rule)
    effect = row(evidence=let_go, state_since=T0 + second(50), now=T0 + second(59))
    assert isinstance(policy.judge(effect, ABSENT, kind()), policy.StillOpen)
    later = row(evidence=let_go, state_since=T0 + second(50), now=T0 + second(60))
    assert verdict(ABSENT, later).state is State.CLEAR


def test_an_empty_lagging_lookup_without_a_key_goes_to_a_person():
    answer = verdict(ABSENT, row(now=T0 + second(100)), kind(lag=second(60)))
    assert (answer.state, answer.error_class) == (State.QUARANTINED, "absent_unprotected")


def test_an_empty_lagging_lookup_clears_while_the_key_still_protects_the_resend():
    effect = row(now=T0 + second(100), resend_until=T0 + second(200))
    served = kind(lag=second(60), idempotent_for=DAY)
    assert verdict(ABSENT, effect, served).state is State.CLEAR


def test_a_key_that_ends_within_the_next_lease_does_not_protect():
    effect = row(now=T0 + second(100), resend_until=T0 + second(104))
    served = kind(lag=second(60), idempotent_for=DAY)
    assert verdict(ABSENT, effect, served).state is State.QUARANTINED


@pytest.mark.parametrize("life", [None, timedelta(minutes=6)])
def test_a_key_protects_no_longer_than_is_declared_by_now(life):
    """Six minutes less the margin of five are over after one; a day was declared when it was sent."""
    now = T0 + second(100)
    doubt = row(now=now, resend_until=T0 + DAY)
    today = {"lag": second(60), "idempotent_for": life}
    assert verdict(ABSENT, doubt, kind(**today)).state is State.QUARANTINED
    assert isinstance(policy.next_question(doubt, kind(None, **today)), policy.Give)
    keyed = Evidence(source="lookup", rule="absent_keyed")
    clear = row(State.CLEAR, now=now, resend_until=T0 + DAY, evidence=keyed)
    assert policy.stranded(clear, kind(**today)) is not None
    outlooks = [
        outlook.without_lookup(doubt, kind(**today))[0],
        outlook.seen(doubt, ABSENT, kind(**today))[0],
    ]
    expected = Outlook.UNKNOWN if life is None else Outlook.KEY_EXPIRED
    assert outlooks == [expected, expected]


def test_a_longer_promise_makes_no_key_live_longer_than_was_declared_when_it_was_sent():
    sent = row(now=T0 + second(100), resend_until=T0 + second(60))
    assert policy.key_ends(sent, kind(idempotent_for=DAY)) == T0 + second(60)
    assert policy.key_ends(row(), kind(idempotent_for=DAY)) is None
    assert policy.key_ends(sent, kind(harmless=True)) == T0 + second(60)


def test_a_policy_that_allows_an_unprotected_resend_is_named_in_the_evidence():
    served = kind(lag=second(60), policy=Policy(resend_unprotected=True))
    answer = verdict(ABSENT, row(now=T0 + second(100)), served)
    assert (answer.state, answer.evidence.rule) == (State.CLEAR, "resend_unprotected")


def test_an_absence_that_rests_on_the_key_does_not_outlive_it():
    keyed = Evidence(source="lookup", rule="absent_keyed")
    fields = {"evidence": keyed, "resend_until": T0 + second(100)}
    inside = row(State.CLEAR, now=T0 + second(95), **fields)
    outside = row(State.CLEAR, now=T0 + second(96), **fields)
    assert policy.stranded(inside, kind(idempotent_for=DAY)) is None
    answer = policy.stranded(outside, kind(idempotent_for=DAY))
    assert answer is not None
    assert (answer.state, answer.error_class) == (State.QUARANTINED, "key_expired")


def test_a_refusal_that_may_be_an_earlier_attempt_s_waits_for_the_horizon():
    refused = finding.Refused(error_class="declined")
    second_try = row(attempt=2)
    assert isinstance(policy.judge(second_try, refused, kind()), policy.StillOpen)
    assert verdict(refused, row(attempt=1)).state is State.REFUSED
    assert verdict(refused, row(attempt=2, now=T0 + HORIZON)).state is State.REFUSED


def test_a_refusal_met_after_a_person_let_go_says_nothing_of_what_was_done_by_hand():
    refused = finding.Refused(error_class="job_failed")
    let_go = Evidence(source="person", rule="retry")
    still_open(refused, row(evidence=let_go, now=T0 + second(9)))
    assert verdict(refused, row(evidence=let_go, now=T0 + HORIZON)).state is State.REFUSED


def test_an_earlier_job_that_failed_says_nothing_of_the_one_that_was_accepted_since():
    refused = finding.Refused(error_class="job_failed")
    still_open(refused, row(State.ACCEPTED, attempt=2, job_id="job-2", now=T0 + second(9)))
    only = row(State.ACCEPTED, attempt=1, job_id="job-1", now=T0 + second(9))
    assert verdict(refused, only).state is State.REFUSED


def test_several_facts_are_never_first_one_wins():
    answer = verdict(finding.Several(external_ids=("a", "b")))
    assert answer.state is State.QUARANTINED
    assert answer.evidence.body == {"external_ids": ["a", "b"]}


def test_a_fact_that_differs_goes_to_a_person_with_both_values():
    found = finding.Differs(external_id="x", expected={"amount": 1}, found={"amount": 2})
    answer = verdict(found)
    assert answer.state is State.QUARANTINED
    assert answer.evidence.body["expected"] == {"amount": 1}
    assert answer.evidence.body["found"] == {"amount": 2}


def test_facts_that_cannot_be_told_apart_go_to_a_person_with_the_candidates():
    answer = verdict(finding.Unknowable(detail="by amount only", candidates=("a",)))
    assert answer.state is State.QUARANTINED
    assert answer.evidence.body == {"candidates": ["a"]}


def test_a_pending_fact_is_accepted_with_its_job_id_and_never_sent_again():
    answer = verdict(finding.Pending(job_id="job-1"))
    assert (answer.state, answer.job_id) == (State.ACCEPTED, "job-1")


def test_what_was_accepted_and_is_unknown_now_goes_to_a_person():
    effect = row(State.ACCEPTED, job_id="job-1", now=T0 + second(100))
    assert verdict(ABSENT, effect).state is State.QUARANTINED


@pytest.mark.parametrize(
    "found", [ABSENT, finding.Several(external_ids=("a", "b")), finding.Refused(error_class="no")]
)
def test_nothing_but_a_found_fact_moves_a_quarantined_effect(found):
    still_open(found, row(State.QUARANTINED, now=T0 + second(1000)))


def test_an_outside_that_can_be_asked_is_asked_even_if_a_key_protects():
    assert policy.next_question(row(resend_until=T0 + second(99)), kind()) == policy.Lookup()


def test_without_a_lookup_the_same_bytes_under_a_living_key_are_the_question():
    effect = row(resend_until=T0 + second(99))
    served = kind(lookup=None, idempotent_for=DAY)
    assert policy.next_question(effect, served) == policy.Resend()


@pytest.mark.parametrize(
    ("resend_until", "rule"), [(None, "no_lookup"), (T0 + second(4), "key_expired")]
)
def test_what_can_neither_be_asked_nor_told_again_goes_to_a_person_at_once(resend_until, rule):
    served = kind(lookup=None, idempotent_for=DAY)
    question = policy.next_question(row(resend_until=resend_until), served)
    assert isinstance(question, policy.Give)
    assert (question.verdict.state, question.verdict.evidence.rule) == (State.QUARANTINED, rule)


@pytest.mark.parametrize("resend_until", [None, T0 + second(4)])
def test_what_nobody_can_ask_for_after_a_restore_goes_to_a_person_because_of_the_restore(
    resend_until,
):
    effect = row(resend_until=resend_until, lease_owner=RESTORED)
    question = policy.next_question(effect, kind(lookup=None))
    assert isinstance(question, policy.Give)
    assert question.verdict.error_class == question.verdict.evidence.rule == "restored"
    assert question.verdict.evidence.detail.startswith("the ledger was restored and may have")


def test_a_quarantined_effect_without_lookup_is_left_alone():
    effect = row(State.QUARANTINED, resend_until=T0 + second(99))
    assert policy.next_question(effect, kind(lookup=None)) == policy.Wait()


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_a_directive(state):
    receipt = RECEIPT if state is State.SETTLED else None
    assert policy.directive_for(row(state, receipt=receipt), kind()) is not None


def test_only_a_clear_effect_is_performed_again():
    performing = {
        state
        for state in State
        if isinstance(policy.directive_for(row(state, receipt=RECEIPT), kind()), directive.RetryIn)
    }
    assert performing == {State.CLEAR}


@given(st.floats(0, 1e7), st.booleans())
def test_questions_slow_down_but_never_stop(age, slower):
    served = kind()
    effect = row(state_since=T0 - second(age), lease_until=T0 - second(age))
    pause = wait.ask_wait(effect, served, slower=slower)
    assert timedelta(0) < pause <= served.policy.ask_cap * 1.1


def test_a_resend_waits_longer_each_time_for_it_spends_the_budget():
    served = kind(lookup=None)
    waits = [wait.ask_wait(row(attempt=n), served) for n in (1, 3, 5)]
    assert waits[0] * 2 < waits[1]
    assert waits[1] * 2 < waits[2]


@given(st.integers(1, 100), st.integers(0, 99))
def test_retries_wait_longer_but_within_the_cap(attempt, budget_from):
    served = kind()
    effect = row(State.CLEAR, attempt=attempt, budget_from=min(budget_from, attempt))
    pause = wait.retry_wait(effect, served)
    assert served.policy.retry_base * 0.75 <= pause <= served.policy.retry_cap * 1.25


def test_effects_that_fail_together_do_not_come_back_together():
    waits = {wait.retry_wait(row(effect_id=f"ef1-{i}"), kind()) for i in range(50)}
    assert len(waits) > 40


def command(action, **fields):
    given_fields = {"operator": "Ada", "reason": "seen it", "version": 2, **fields}
    return Command(action=action, **given_fields)


LATER = T0 + second(60)


def test_a_command_for_an_older_version_is_refused_with_what_changed():
    refused = policy.refusal(
        command(Action.TAKE, version=1), row(State.QUARANTINED, now=LATER), kind()
    )
    assert refused is not None
    assert "version 2, now QUARANTINED" in refused


def test_taking_over_while_an_attempt_is_in_flight_is_refused():
    refused = policy.refusal(command(Action.TAKE), row(State.IN_FLIGHT), kind())
    assert refused is not None
    assert "do not act yet" in refused


def test_taking_over_before_what_was_sent_can_have_landed_is_refused():
    effect = row(now=T0 + second(9))
    refused = policy.refusal(command(Action.TAKE), effect, kind())
    assert refused is not None
    assert "12:00:10" in refused
    assert policy.refusal(command(Action.TAKE), row(now=LATER), kind()) is None


def test_an_operator_may_insist_but_never_past_the_state_machine():
    early = row(State.QUARANTINED, now=T0)
    assert policy.refusal(command(Action.DENY), early, kind()) is not None
    assert policy.refusal(command(Action.DENY, override=True), early, kind()) is None
    assert policy.refusal(command(Action.DENY, override=True), row(State.IN_FLIGHT), kind())


def test_only_who_took_it_over_decides():
    effect = row(State.TAKEN_OVER, taken_by="Grace", now=LATER)
    assert "Grace" in (policy.refusal(command(Action.DENY), effect, kind()) or "")
    assert policy.refusal(command(Action.DENY, operator="Grace"), effect, kind()) is None


def test_what_is_safe_next_is_what_would_be_accepted():
    effect = row(State.QUARANTINED, now=LATER)
    standing = policy.standing_of(effect, kind())
    for action in Action:
        accepted = policy.refusal(command(action), effect, kind()) is None
        assert accepted == (action.value in standing.safe_next), action


def test_what_an_effect_cannot_tell_is_not_offered_as_its_safe_next_step():
    settled = row(State.SETTLED, now=LATER)
    assert policy.standing_of(settled, kind()).safe_next == ()
    said = policy.refusal(command(Action.CONFIRM), settled, kind())
    assert said == (
        "confirm is not possible while the effect is SETTLED; possible is undo, if its step declares one"
    )


def test_the_standing_says_from_when_a_person_may_act():
    early = policy.standing_of(row(State.QUARANTINED, now=T0), kind())
    late = policy.standing_of(row(State.QUARANTINED, now=LATER), kind())
    assert (early.act_from, late.act_from) == (T0 + second(10), None)
    assert early.safe_next == late.safe_next


def test_a_harmless_effect_may_always_be_sent_again():
    assert kind(harmless=True, lookup=None).semantics.resend_for == timedelta.max


def test_the_margin_is_taken_off_the_life_of_a_key():
    served = kind(lookup=LookupBy.KEY, idempotent_for=timedelta(hours=24))
    assert served.semantics.resend_for == timedelta(hours=23, minutes=55)


NOTHING = Evidence(source="phase", rule="refused", detail="no byte left")


@pytest.mark.parametrize(
    "came_to",
    [
        outcome.NotDone(error_class="connect", evidence=NOTHING),
        outcome.Refused(error_class="unauthorised", evidence=NOTHING),
    ],
)
def test_a_resend_that_did_nothing_says_nothing_of_the_first_send(came_to):
    asked = row(State.IN_FLIGHT, evidence=Evidence(source="rule", rule="resend"))
    first = row(State.IN_FLIGHT, evidence=Evidence(source="rule", rule="claim"))
    assert isinstance(policy.says_of_effect(asked, came_to), outcome.Unknown)
    assert policy.says_of_effect(first, came_to) is came_to


def test_an_attempt_that_did_nothing_leaves_an_absence_that_rests_on_the_key_as_it_was():
    claimed = row(State.IN_FLIGHT, evidence=Evidence(source="rule", rule="absent_keyed"))
    nothing = outcome.NotDone(error_class="connect", evidence=NOTHING)
    said = policy.says_of_effect(claimed, nothing)
    assert isinstance(said, outcome.NotDone)
    assert said.evidence == NOTHING.model_copy(update={"rule": "absent_keyed"})
    clear = row(State.CLEAR, now=T0 + second(96), resend_until=T0, evidence=said.evidence)
    assert policy.stranded(clear, kind(idempotent_for=DAY)) is not None


def test_a_resend_that_settles_settles():
    asked = row(State.IN_FLIGHT, evidence=Evidence(source="rule", rule="resend"))
    settled = outcome.Settled(receipt=RECEIPT, evidence=NOTHING)
    assert policy.says_of_effect(asked, settled) is settled


def test_a_key_protects_only_what_can_still_meet_it_when_it_lands():
    served = kind(
        lookup=None, idempotent_for=second(100), key_margin=second(1), in_flight_max=second(30)
    )
    assert served.semantics.resend_for == second(70)


@pytest.mark.parametrize(("waiting", "most"), [(0, 60), (1, 15), (3, 45), (100, 60)])
def test_of_all_that_wait_for_an_outside_that_is_down_one_asks_every_few_seconds(waiting, most):
    served = kind(policy=Policy(ask_cap=second(60)))
    old = row(state_since=T0 - second(3600), lease_until=T0 - second(3600))
    pause = wait.ask_wait(old, served, slower=True, waiting=waiting)
    assert second(most) * 0.9 <= pause <= second(most) * 1.1


@pytest.mark.parametrize(
    ("closed_for", "recheck", "pause"),
    [(0, 15, 15), (60, 15, 15), (240, 15, 60), (86_400, 15, 300), (86_400, 600, 600)],
)
def test_a_held_task_looks_more_seldom_the_longer_its_gate_is_closed(closed_for, recheck, pause):
    served = kind(policy=Policy(held_recheck=second(recheck)))
    assert wait.held_wait(second(closed_for), served) == second(pause)


@pytest.mark.parametrize("found", [ABSENT, finding.Pending(detail="it is in review")])
def test_what_a_person_has_to_decide_keeps_its_cause_beside_what_the_last_look_came_to(found):
    effect = row(State.QUARANTINED, now=T0 + second(5))
    last = still_open(found, effect).reason
    following = policy.directive_for(effect, kind(), why=last)
    told = f"as the test says; last look at 2026-01-01 12:00:05 UTC: {last}"
    assert following.standing is not None
    assert (following.reason, following.standing.reason) == (told, told)


def test_a_last_look_that_came_to_the_cause_itself_is_not_told_twice():
    found = finding.Several(external_ids=("fact-1", "fact-2"))
    cause = verdict(found).evidence
    effect = row(State.QUARANTINED, evidence=cause)
    last = still_open(found, effect).reason
    assert policy.directive_for(effect, kind(), why=last).reason == cause.detail


def test_what_is_asked_for_again_says_what_it_waits_for():
    last = still_open(ABSENT).reason
    assert policy.directive_for(row(), kind(), why=last).reason == last
