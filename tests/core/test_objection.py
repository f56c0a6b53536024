from __future__ import annotations

import pytest

from ascertain.contracts import finding
from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import AuditEvent, Evidence, Receipt, State
from ascertain.errors import LookupDown
from ascertain.objection import objection
from ascertain.ports import Case
from tests.core.rows import T0, kind, row, second

LATER = T0 + second(1000)
TYPED = Receipt(external_id="typed")
FOUND = finding.Found(receipt=Receipt(external_id="fact-1"))
SEVERAL = finding.Several(external_ids=("a", "b"))
DIFFERS = finding.Differs(external_id="x", expected={"amount": 1}, found={"amount": 2})
CANNOT_TELL = finding.Unknowable(candidates=("a",))
FAILED = finding.Refused(error_class="declined")
PENDING = finding.Pending()
ABSENT = finding.Absent()
DOWN = LookupDown("no answer")


def against(action, seen, *, late=(), now=LATER, receipt=TYPED):
    command = Command(action=action, operator="ada", reason="so", version=2, receipt=receipt)
    case = Case(row(State.QUARANTINED, now=now), late)
    return objection(command, case, seen, kind())


@pytest.mark.parametrize("seen", [FOUND, None])
def test_nothing_speaks_against_confirming_what_was_found_or_cannot_be_asked_for(seen):
    assert against(Action.CONFIRM, seen) is None


@pytest.mark.parametrize("seen", [ABSENT, FAILED, PENDING, SEVERAL, DIFFERS, CANNOT_TELL, DOWN])
def test_a_confirmation_that_the_lookup_does_not_bear_out_meets_an_objection(seen):
    assert against(Action.CONFIRM, seen)


@pytest.mark.parametrize(("seen", "chosen"), [(SEVERAL, "b"), (DIFFERS, "x"), (CANNOT_TELL, "a")])
def test_a_person_may_tie_one_of_the_facts_that_were_found(seen, chosen):
    assert against(Action.CONFIRM, seen, receipt=Receipt(external_id=chosen)) is None


@pytest.mark.parametrize("seen", [ABSENT, FAILED, None])
def test_nothing_speaks_against_denying_what_is_conclusively_absent_or_failed_for_good(seen):
    assert against(Action.DENY, seen) is None


@pytest.mark.parametrize("seen", [FOUND, PENDING, SEVERAL, DIFFERS, CANNOT_TELL, DOWN])
def test_a_denial_that_the_lookup_does_not_bear_out_meets_an_objection(seen):
    assert against(Action.DENY, seen)


def test_a_denial_on_an_empty_lookup_before_its_horizon_meets_an_objection():
    assert "conclusive from 12:00:10" in (against(Action.DENY, ABSENT, now=T0 + second(9)) or "")


LATE = AuditEvent(
    effect_id="ef1-a",
    seq=3,
    move="refused_write",
    actor="w",
    from_state=None,
    to_state=None,
    version=2,
    lease_version=1,
    attempt=1,
    evidence=Evidence(source="answer", rule="proof"),
    receipt=FOUND.receipt,
    at=T0,
    hash="",
)


def test_a_denial_on_a_refusal_that_may_be_an_earlier_attempt_s_waits_for_the_horizon():
    command = Command(action=Action.DENY, operator="ada", reason="so", version=2)
    early = Case(row(State.QUARANTINED, attempt=2, now=T0 + second(9)), ())
    late = Case(row(State.QUARANTINED, attempt=2, now=LATER), ())
    assert objection(command, early, FAILED, kind())
    assert objection(command, late, FAILED, kind()) is None


@pytest.mark.parametrize("action", [Action.DENY, Action.ABANDON])
def test_a_late_answer_speaks_against_saying_that_there_is_nothing(action):
    assert "fact-1" in (against(action, None, late=(LATE,)) or "")


def test_what_a_late_answer_proves_of_another_effect_does_not_keep_a_person_from_giving_up():
    command = Command(action=Action.ABANDON, operator="ada", reason="so", version=2)
    taken = Case(row(State.QUARANTINED, now=LATER, error_class="fact_taken"), (LATE,))
    assert objection(command, taken, None, kind()) is None
