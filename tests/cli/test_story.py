"""The whole case of a task in words: where it stands, what happened, and what is safe next."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from ascertain.cli import advice, story, wording
from ascertain.cli.known import KnownEffect
from ascertain.contracts.command import Action
from ascertain.contracts.effect import Evidence, Receipt, State
from ascertain.contracts.finding import Differs, Several
from ascertain.contracts.gate import GateChange
from ascertain.contracts.outcome import Refused
from ascertain.contracts.semantics import LookupBy
from ascertain.contracts.status import TimelineEntry
from ascertain.contracts.task import StepResult, TaskOutcome, TaskResult
from ascertain.machine import Move
from tests.cli.cases import (
    EFFECT,
    START,
    TASK,
    Night,
    decide,
    done,
    lost,
    never_left,
    person,
    quarantine,
    text,
)
from tests.ledger.steps import request, settled


async def test_a_smooth_task_is_done_and_needs_nothing():
    night = Night()
    await night.attempt(settled("fact-9"))
    told = text(await night.known("COMPLETED", result=done()))
    assert told.startswith(f"Task {TASK} is done: every step exists outside.")
    assert "It exists outside as fact-9." in told
    assert "It was sent once and never repeated." in told
    assert "02:59:58 UTC  Attempt 1 was permitted to host-1:77" in told
    assert "03:00" not in told.split("What is safe next", maxsplit=1)[1]
    assert told.endswith("Nothing needs to be done.")


async def test_while_in_doubt_it_says_that_nothing_is_proved_and_why_nothing_is_repeated():
    night = Night()
    await night.attempt(lost())
    told = text(await night.known(doing="reconcile_in"))
    assert f"Task {TASK} is finding out whether step charge happened." in told
    assert "It may or may not exist outside." in told
    assert "nothing proves that attempt 1 did not happen" in told
    assert "proves nothing before 2026-03-04 03:00:" in told
    assert f"ascertain reconcile {TASK}" in told


async def test_a_quarantined_task_waits_for_a_person_and_says_which_commands_are_safe():
    night = Night()
    await night.attempt(lost())
    night.later(60)
    await night.finding(Several(external_ids=("fact-1", "fact-2")))
    known = await night.known(doing="quarantined")
    told = text(known)
    assert told.startswith(f"Task {TASK} waits for a person to decide about step charge.")
    assert "Automation stopped: several facts carry this id: fact-1, fact-2." in told
    at = f"--effect {EFFECT} --version {known.effects[0].row.version}"
    assert f'ascertain takeover {TASK} take {at} --reason "WHY"' in told
    assert f'ascertain takeover {TASK} confirm {at} --external-id ID --reason "WHY"' in told
    assert f"ascertain takeover {TASK} release" not in told


@pytest.mark.parametrize(("revision", "said"), [(1, "1 time)"), (2, "2 times)")])
async def test_how_often_an_input_was_amended_is_told_in_words_that_fit_the_number(revision, said):
    night = Night()
    await night.attempt(lost())
    known = await night.known(doing="reconcile_in")
    (effect,) = known.effects
    amended = replace(effect, row=effect.row.model_copy(update={"revision": revision}))
    assert f"input amended {said}" in text(replace(known, effects=(amended,)))


async def test_a_fact_that_differs_is_shown_beside_what_was_asked_for():
    night = Night()
    await night.attempt(lost())
    night.later(60)
    await night.finding(Differs(external_id="f-1", expected={"sum": 5}, found={"sum": 6}))
    lines = [line.strip() for line in text(await night.known(doing="quarantined")).splitlines()]
    assert 'asked for: {"sum": 5}' in lines
    assert 'found: {"sum": 6}' in lines


async def test_the_age_of_the_key_is_told_against_its_life():
    night = Night(lookup=None)
    await night.attempt(lost(), resend_for=timedelta(hours=1))
    night.later(1800)
    told = text(await night.known(doing="reconcile_in"))
    assert "Its key is 30 minutes old and protects a re-send until 2026-03-04 03:59:58 UTC." in told
    night.later(1800)
    told = text(await night.known(doing="reconcile_in"))
    assert "Its key is 60 minutes old and no longer protects a re-send, since 2026-03-04" in told


async def test_a_key_that_never_expires_is_told_so():
    night = Night(lookup=None)
    await night.attempt(lost(), resend_for=timedelta.max)
    assert "protects a re-send for ever" in text(await night.known(doing="reconcile_in"))


async def test_what_was_too_early_for_a_person_is_told_to_be_so():
    night = Night(in_flight_max=timedelta(hours=1))
    await night.attempt(lost())
    (take,) = [
        item
        for item in story.tell(await night.known(doing="reconcile_in")).safe_next
        if item.action is Action.TAKE
    ]
    assert "Not before " in take.meaning
    night.later(7200)
    (take,) = [
        item
        for item in story.tell(await night.known(doing="reconcile_in")).safe_next
        if item.action is Action.TAKE
    ]
    assert take.meaning == advice.MEANING[Action.TAKE]


async def test_a_time_that_has_passed_is_not_told_although_the_worker_had_to_name_it():
    night = Night(in_flight_max=timedelta(hours=1))
    await night.attempt(lost())
    known = await night.known(doing="reconcile_in")
    assert "proves nothing before" in text(known)
    later = replace(known, at=known.at + timedelta(hours=2))
    told = story.tell(later)
    assert "proves nothing before" not in text(later)
    assert not [item for item in told.safe_next if "Not before" in item.meaning]


async def test_what_comes_back_between_two_looks_of_its_task_is_told_with_one_time():
    night = Night(lookup=None)
    await night.attempt(lost())
    await quarantine(night)
    first = await night.row()
    night.later(80)
    await decide(night, Move.RETRY, State.UNKNOWN, "once more")
    await quarantine(night)
    # The task was at QUARANTINED before and is so again: it never saw what was between.
    told = text(await night.known(doing="quarantined", looked=first))
    since = wording.moment((await night.row()).state_since)
    assert f"It has been at step charge like this since {since}" in told
    assert f"It has been so since {since}" in told
    assert wording.moment(first.state_since) not in told


async def test_who_cannot_ask_is_advised_to_amend_with_evidence():
    night = Night(lookup=None)
    await night.attempt(lost())
    night.later(60)
    await night.finding(Several(external_ids=("a", "b")))
    told = story.tell(await night.known(doing="quarantined"))
    (amend,) = [item for item in told.safe_next if item.action is Action.AMEND]
    assert "--input JSON --evidence JSON" in amend.command


async def test_a_taken_over_task_names_its_owner_and_every_decision():
    night = Night()
    await night.attempt(lost())
    night.later(60)
    await decide(night, Move.TAKE, State.TAKEN_OVER, "on it")
    told = text(await night.known(doing="taken_over"))
    assert "is in the hands of a person, who took over step charge" in told
    assert "ada has taken it over. Automation does nothing now." in told
    assert "ada took it over: on it." in told
    commands = story.tell(await night.known(doing="taken_over")).safe_next
    assert all(item.command.endswith("--operator ada") for item in commands if item.action)
    assert {Action.CONFIRM, Action.RELEASE} <= {item.action for item in commands}
    await decide(
        night,
        Move.CONFIRM,
        State.SETTLED,
        "line 12 of the statement",
        receipt=Receipt(external_id="tx-1"),
        body={"override": True},
    )
    told = text(await night.known("COMPLETED", result=done("tx-1")))
    assert (
        "ada confirmed that it exists as tx-1 against what the outside could show: line 12" in told
    )


async def test_a_late_write_of_a_stale_attempt_is_told_with_what_it_knew():
    night = Night()
    answer = await night.ledger.claim(request())
    night.later(10)
    before = await night.row()
    await night.ledger.fence(EFFECT, before.version, "host-2:88")
    await night.ledger.record(answer.lease, settled("fact-9"))
    told = text(await night.known(doing="reconcile_in"))
    assert "A late write of attempt 1 by worker was refused" in told
    assert "it knew of fact-9." in told


async def test_a_held_task_names_the_gate_that_holds_it():
    night = Night()
    await night.attempt(never_left())
    known = await night.known(doing="held")
    assert "waits before step charge, because its partition p is paused" in text(known)
    assert [item.command for item in story.tell(known).safe_next] == ["ascertain resume p"]


@pytest.mark.parametrize(
    ("closed", "said", "remedies"),
    [
        ("*", "every partition is paused", ["--all"]),
        ("*p", "every partition and its partition p are paused", ["--all", "p"]),
        ("p", "its partition p is paused", ["p"]),
    ],
)
async def test_a_held_task_is_told_of_the_gate_that_is_closed_and_of_what_opens_that(
    closed, said, remedies
):
    night = Night()
    await night.attempt(never_left())
    for name in closed:
        await night.ledger.set_gate(paused(name))
    known = replace(await night.known(doing="held"), gates=tuple(await night.ledger.gates()))
    assert f"waits before step charge, because {said}." in text(known)
    commands = [item.command for item in story.tell(known).safe_next]
    assert commands == [f"ascertain resume {which}" for which in remedies]


async def test_a_gate_that_is_closed_counts_before_one_that_opens_little_by_little():
    night = Night()
    await night.attempt(never_left())
    for name in "*p":
        await night.ledger.set_gate(paused(name))
    opens = {"paused": False, "request_id": "opens", "ramp": timedelta(days=7)}
    await night.ledger.set_gate(paused("*").model_copy(update=opens))
    known = replace(await night.known(doing="held"), gates=tuple(await night.ledger.gates()))
    assert "because its partition p is paused." in text(known)
    assert [item.command for item in story.tell(known).safe_next] == ["ascertain resume p"]


async def test_where_the_ledger_cannot_be_asked_the_gate_is_told_that_the_task_met():
    night = Night()
    await night.attempt(never_left())
    known = await night.known(doing="held")
    opened = known.status.open.model_copy(update={"gate": "*"})
    known = replace(known, status=known.status.model_copy(update={"open": opened}))
    assert "because every partition is paused." in text(known)
    assert [item.command for item in story.tell(known).safe_next] == ["ascertain resume --all"]


def paused(partition):
    return GateChange(
        partition=partition, paused=True, by="bo", reason="odd", request_id=f"r-{partition}"
    )


async def test_a_decision_is_told_of_the_closed_gate_that_keeps_what_follows_from_being_sent():
    night = Night(lookup=None)
    await night.attempt(lost())
    await quarantine(night)
    for partition in ("p", "*", "elsewhere"):
        await night.ledger.set_gate(paused(partition))
    known = replace(await night.known(doing="quarantined"), gates=tuple(await night.ledger.gates()))
    told = text(known)
    assert "Partition p is paused since" in told
    assert "by bo: odd. A person can decide all the same; what that lets go on is sent once" in told
    assert "Every partition is paused since" in told
    assert "elsewhere" not in told


@pytest.mark.parametrize(
    ("doing", "reason"),
    [
        ("retry_in", "the ledger at db:5432/x does not answer (timeout)"),
        ("reconcile_in", "perform ended without an answer: permission denied for table effects"),
    ],
)
async def test_what_keeps_a_worker_from_its_part_is_named_as_what_to_mend(doing, reason):
    night = Night()
    await night.attempt(lost())
    known = await night.known(doing=doing)
    opened = known.status.open.model_copy(update={"standing": None, "reason": reason})
    known = replace(known, status=known.status.model_copy(update={"open": opened}))
    (item,) = story.tell(known).safe_next
    assert item.command == "ascertain doctor"
    assert item.meaning.startswith(f"A worker could not do its part: {reason}. Once that is over")
    assert "Nothing needs to be done" not in text(known)


async def test_a_task_without_a_worker_stands_still_and_says_so():
    night = Night()
    await night.attempt(lost())
    known = await night.known(gaps=("No worker answered for the task: nobody did within 5 s",))
    told = text(known)
    assert told.startswith(f"Task {TASK} is running, but no worker answers for it")
    assert "What could not be asked" in told
    assert [item.command for item in story.tell(known).safe_next] == ["ascertain worker"]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("TERMINATED", "was ended from outside while an effect of it is not resolved"),
        ("TIMED_OUT", "was ended by the server's time-out while an effect of it is not resolved"),
        ("FAILED", "failed while an effect of it is not resolved"),
    ],
)
async def test_an_orphaned_effect_is_told_and_is_picked_up_by_submitting_again(state, said):
    night = Night()
    await night.attempt(lost())
    known = await night.known(state)
    told = text(known)
    assert said in told
    assert "No workflow pursues this effect now, until a sweep takes it up again" in told
    assert [item.command for item in story.tell(known).safe_next] == [
        "ascertain sweep",
        "ascertain submit FILE",
    ]


async def test_a_workflow_lost_to_retention_leaves_what_the_ledger_knows():
    night = Night()
    await night.attempt(lost())
    known = await night.known(None)
    assert "has an effect that is not resolved, and nobody pursues it any more" in text(known)
    assert "Nothing happens by itself: no workflow pursues this effect now." in text(known)
    assert [item.command for item in story.tell(known).safe_next] == ["ascertain submit FILE"]


async def test_nothing_is_advised_about_a_task_whose_workflow_cannot_be_asked():
    night = Night()
    await night.attempt(lost())
    known = await night.known(None, gaps=("Temporal: no server answers",))
    told = text(known)
    assert "whether somebody pursues it cannot be asked" in told
    assert "Nothing happens by itself" not in told
    assert story.tell(known).safe_next == ()


async def test_a_cancelled_task_with_a_clear_effect_needs_nothing():
    night = Night()
    await night.attempt(never_left())
    assert story.tell(await night.known("CANCELED")).safe_next == ()


@pytest.mark.parametrize(
    ("lookup", "asked"),
    [
        (LookupBy.REFERENCE, "The outside is asked first; then it is"),
        (None, "The outside cannot be asked, so on your word it is"),
    ],
)
async def test_what_is_denied_of_a_task_that_begins_nothing_new_is_not_told_to_be_done_again(
    lookup, asked
):
    night = Night(lookup)
    await night.attempt(lost())
    if lookup is None:
        await quarantine(night)
    else:
        night.later(60)
        await night.finding(Several(external_ids=("fact-1", "fact-2")))
    known = await night.known(doing="quarantined")
    (effect,) = known.effects
    told = effect.trail[-1].model_copy(
        update={"move": wording.NOTE, "evidence": person("ordered twice", rule="undo")}
    )
    other = KnownEffect(effect.row.model_copy(update={"step": "first"}), (told,))
    for given_up in (
        replace(known, status=known.status.model_copy(update={"cancelling": True})),
        replace(known, effects=(other, effect)),
    ):
        meanings = {item.action: item.meaning for item in story.tell(given_up).safe_next}
        assert f"{asked} closed and not done again" in meanings[Action.DENY]
        assert f"{asked} closed, and not done with the new input" in meanings[Action.AMEND]
    undo = known.status.open.model_copy(update={"step": "charge~undo"})
    status = known.status.model_copy(update={"open": undo, "cancelling": True})
    meanings = {i.action: i.meaning for i in story.tell(replace(known, status=status)).safe_next}
    assert "done again" in meanings[Action.DENY]
    assert "not done again" not in meanings[Action.DENY]


async def test_commands_that_were_not_applied_are_told():
    night = Night()
    await night.attempt(lost())
    known = await night.known(doing="reconcile_in")
    refusal = TimelineEntry(at=START, step="", what="takeover", detail="operator: Field required")
    status = known.status.model_copy(update={"refused_commands": (refusal,)})
    told = text(type(known)(TASK, START, run=known.run, status=status, effects=known.effects))
    assert "A command was not applied at 02:59:58 UTC: operator: Field required." in told


async def test_words_of_the_outside_cannot_reach_the_terminal_as_commands():
    night = Night()
    await night.attempt(lost("\x1b[2J\x1b]0;owned\x07gone\r\nAll is well.\u202e"))
    told = text(await night.known(doing="reconcile_in"))
    assert not any(ord(char) < 32 and char != "\n" for char in told)
    assert "\u202e" not in told
    assert "[2J ]0;owned gone All is well." in told


def test_every_move_has_its_words():
    assert set(wording.MOVES) == {*Move, wording.REFUSED_WRITE, wording.NOTE}


def test_every_action_has_its_meaning_and_its_place():
    assert set(advice.MEANING) == set(advice.ORDER) == set(Action)
    asks = {
        action for action in Action if re.search(r"\bask", advice.MEANING[action], re.IGNORECASE)
    }
    assert asks == set(advice.UNASKABLE)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-3, "0 seconds"),
        (1, "1 second"),
        (119, "119 seconds"),
        (120, "2 minutes"),
        (7199, "119 minutes"),
        (7200, "2 hours"),
        (172_799, "47 hours"),
        (172_800, "2 days"),
    ],
)
def test_an_age_is_told_in_one_unit(seconds, said):
    assert wording.age(timedelta(seconds=seconds)) == said


async def test_input_that_cannot_be_sent_is_told_as_never_sent_and_not_as_the_outsides_no():
    night = Night()
    why = Evidence(source="rule", rule=wording.UNSENDABLE, detail="amount: must be a number")
    await night.attempt(Refused(error_class=wording.UNSENDABLE, evidence=why))
    step = StepResult(step="charge", effect_id=EFFECT, state=State.REFUSED)
    result = TaskResult(task_id=TASK, outcome=TaskOutcome.REFUSED, steps=(step,))
    told = text(await night.known("COMPLETED", result=result))
    assert "was refused: nothing can be sent for step charge, and nothing was." in told
    assert "Attempt 1 sent nothing, because no request can be made of the input: amount" in told
    assert "It was refused before anything was sent." in told
    assert "outside said no" not in told
    assert "Nothing needs to be done" not in told
    assert "Correct the input of step charge, and submit it under a new task_id" in told


async def test_an_outside_that_cannot_be_asked_is_never_said_to_be_asked():
    night = Night(lookup=None)
    await night.attempt(lost())
    known = await night.known(doing="reconcile_in")
    assert "The outside cannot be asked. The same bytes are sent again while" in text(known)
    await quarantine(night)
    known = await night.known(doing="quarantined")
    told = text(known)
    assert "Nothing happens by itself: the outside cannot be asked. Only an answer of a" in told
    assert "The outside cannot be asked, so your word counts." in told
    assert "is asked first" not in told
    assert all("reconcile" not in item.command for item in story.tell(known).safe_next)


async def test_a_notice_of_an_outside_that_answers_again_is_not_told_as_if_it_stood():
    night = Night()
    await night.attempt(lost())
    row = await night.row()
    outage = await night.ledger.note_outage(row.partition, row.kind, "503")
    known = await night.known(doing="reconcile_in")
    opened = known.status.open.model_copy(update={"reason": f"{outage.words} in p (503)"})
    status = known.status.model_copy(update={"open": opened})
    told = [
        text(replace(known, status=status, outages=tuple(await night.ledger.outages()))),
        text(replace(known, status=status)),
        text(replace(known, status=status, exit_code=6)),
    ]
    again = "Meanwhile it could be asked for another task; this one asks at its next turn."
    assert [again in each for each in told] == [False, True, False]


async def test_a_run_that_only_ascertains_is_submitted_again_to_have_its_effect_done_again():
    night = Night(None)
    await night.attempt(lost())
    await quarantine(night)
    known = await night.known(doing="quarantined")
    run = known.status.model_copy(update={"only_ascertains": True})
    told = {item.action: item.meaning for item in story.tell(replace(known, status=run)).safe_next}
    first = [action for action, meaning in told.items() if "Submit the task again first" in meaning]
    assert set(first) == {Action.DENY, Action.RETRY, Action.AMEND}
