"""What a person may do with a task, through the client and as plain Temporal signals and updates."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.client import WorkflowUpdateFailedError

from ascertain.contracts import names
from ascertain.contracts.claim import Verdict
from ascertain.contracts.command import Action, Command, CommandAnswer
from ascertain.contracts.effect import Evidence, Receipt, State
from ascertain.contracts.task import TaskOutcome
from ascertain.errors import AlreadyOver, CommandRefused, NotFound
from ascertain.machine import Move
from ascertain.testing.knob import Answer, Drop, Rule, Silence, SubmitKnobs
from tests.protocol.deployment import command, step
from tests.waiting import wait_until


async def quarantined(deployment, task_id="stuck", **fields):
    """A task whose effect can neither be asked for nor told again; the fact exists."""
    await deployment.worker()
    deployment.outside.rules.add(Rule(times=1, submit=SubmitKnobs(reply=Drop(how="reset"))))
    effect = await deployment.submit(task_id, step(kind="toy.neither"), **fields)
    return await deployment.decidable(effect)


async def test_a_person_counts_an_unanswered_effect_as_done(deployments):
    deployment = await deployments()
    row = await quarantined(deployment)
    answer = await deployment.takeover(
        "stuck", command(Action.CONFIRM, row, receipt=Receipt(external_id="seen-1"))
    )
    assert answer.applied, answer.message
    result = await deployment.result("stuck")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(row.effect_id), deployment.facts(row.effect_id)) == (1, 1)


async def test_a_person_who_says_it_does_not_exist_has_it_done_again(deployments):
    deployment = await deployments()
    row = await quarantined(deployment)
    answer = await deployment.takeover("stuck", command(Action.DENY, row))
    assert answer.applied, answer.message
    await deployment.result("stuck")
    assert deployment.submits(row.effect_id) == 2
    denial = (await deployment.ledger.audit(row.effect_id))[3]
    assert (denial.move, denial.actor, denial.evidence.source) == ("deny", "ada", "person")


async def test_an_abandoned_effect_ends_its_task(deployments):
    deployment = await deployments()
    row = await quarantined(deployment)
    await deployment.takeover("stuck", command(Action.ABANDON, row))
    assert (await deployment.result("stuck")).outcome is TaskOutcome.ABANDONED


async def test_what_is_taken_over_is_left_alone_until_it_is_released(deployments):
    deployment = await deployments()
    row = await quarantined(deployment)
    await deployment.takeover("stuck", command(Action.TAKE, row))
    taken = await deployment.row(row.effect_id)
    assert (taken.state, taken.taken_by) == (State.TAKEN_OVER, "ada")
    await deployment.client.reconcile_now(deployment.id("stuck"))
    status = await deployment.status("stuck")
    assert status.state == "TAKEN_OVER"
    released = await deployment.takeover("stuck", command(Action.RELEASE, taken))
    assert released.applied
    await deployment.wait_for_row(row.effect_id, lambda row: row.state is State.QUARANTINED)


async def test_a_command_for_what_has_moved_on_is_refused_with_what_changed(deployments):
    deployment = await deployments()
    row = await quarantined(deployment)
    stale = row.model_copy(update={"version": row.version - 1})
    answer = await deployment.takeover("stuck", command(Action.TAKE, stale))
    assert not answer.applied
    assert f"version {row.version}" in answer.message


async def test_a_repeated_request_id_is_applied_once(deployments):
    deployment = await deployments()
    row = await quarantined(deployment)
    take = command(Action.TAKE, row, request_id="req-1")
    answers = [await deployment.takeover("stuck", take) for _ in range(2)]
    assert [answer.applied for answer in answers] == [True, True]
    assert (await deployment.moves(row.effect_id)).count("take") == 1


async def test_a_command_that_was_refused_is_looked_at_again_when_it_is_repeated(deployments):
    deployment = await deployments()
    deployment.settings["kinds"]["toy.neither"]["semantics"]["in_flight_max"] = 3600
    deployment.configure()
    await deployment.worker()
    deployment.meet(SubmitKnobs(reply=Drop(how="reset")))
    effect = await deployment.submit("early", step(kind="toy.neither"))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    take = command(Action.TAKE, row, request_id="req-1")
    refused = await deployment.takeover("early", take)
    assert "do not act yet" in refused.message
    await deployment.age(effect)
    assert (await deployment.takeover("early", take)).applied
    assert (await deployment.row(effect)).state is State.TAKEN_OVER


async def test_a_command_that_waits_its_turn_is_never_applied_to_the_next_effect(deployments):
    deployment = await deployments()
    worker = await deployment.worker()
    deployment.outside.rules.add(Rule(times=2, submit=SubmitKnobs(reply=Drop(how="reset"))))
    steps = (step("a", "toy.neither"), step("b", "toy.neither"))
    effect = await deployment.submit("queue", *steps)
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    await wait_until(lambda: _open(deployment, "queue"))
    await worker.kill()
    receipt = Receipt(external_id="fact-of-a")
    for number in range(30):  # the very same words are a repeat, other ones another command
        confirm = command(Action.CONFIRM, row, receipt=receipt, reason=f"word {number // 2}")
        sent = confirm.model_dump(mode="json", exclude_none=True)
        await deployment.handle("queue").signal(names.TAKEOVER, sent)
    await deployment.worker()
    following = deployment.effect("queue", "b")
    await deployment.wait_for_row(following, lambda row: row.state is State.QUARANTINED)

    async def all_answered():
        status = await deployment.status("queue")
        return len(status.refused_commands) == 28

    await wait_until(all_answered)
    assert "confirm" not in await deployment.moves(following)


async def test_a_command_for_a_task_that_is_over_is_refused(deployments):
    deployment = await deployments()
    await deployment.worker()
    effect = await deployment.submit("over", step())
    await deployment.result("over")
    row = await deployment.row(effect)
    with pytest.raises((NotFound, CommandRefused)):
        await deployment.takeover("over", command(Action.TAKE, row))


async def test_a_command_that_is_repeated_when_its_task_is_over_gets_its_first_answer(deployments):
    deployment = await deployments()
    row = await quarantined(deployment)
    abandon = command(Action.ABANDON, row, request_id="req-1")
    first = await deployment.takeover("stuck", abandon)
    assert first.applied
    await deployment.result("stuck")
    assert await deployment.takeover("stuck", abandon) == first
    with pytest.raises(AlreadyOver):
        await deployment.takeover("stuck", command(Action.ABANDON, row, request_id="req-2"))


async def test_another_command_under_a_used_request_id_is_refused(deployments):
    deployment = await deployments()
    row = await quarantined(deployment)
    take = command(Action.TAKE, row, request_id="req-1")
    taken = await deployment.takeover("stuck", take)
    assert (taken.applied, taken.action) == (True, Action.TAKE)
    row = await deployment.wait_for_row(row.effect_id, lambda row: row.state is State.TAKEN_OVER)
    abandon = command(Action.ABANDON, row, request_id="req-1")
    with pytest.raises(
        CommandRefused, match=r"request id req-1 was used for take of .*; give another"
    ):
        await deployment.takeover("stuck", abandon)
    other = take.model_copy(update={"effect_id": "eff-of-another"})
    with pytest.raises(CommandRefused, match="req-1 was used for take of"):
        await deployment.takeover("stuck", other)
    assert await deployment.takeover("stuck", take) == taken
    assert (
        await deployment.takeover("stuck", command(Action.ABANDON, row, request_id="r-2"))
    ).applied
    await deployment.result("stuck")
    with pytest.raises(AlreadyOver):
        await deployment.takeover("stuck", abandon)
    assert await deployment.takeover("stuck", take) == taken


async def test_the_same_command_with_other_content_under_a_used_request_id_is_refused(deployments):
    deployment = await deployments()
    await deployment.worker()
    deployment.outside.rules.add(Rule(times=2, submit=SubmitKnobs(reply=Drop(how="reset"))))
    steps = (step("a", "toy.neither"), step("b", "toy.neither"))
    effect = await deployment.submit("stuck", *steps)
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    confirm = command(
        Action.CONFIRM, row, receipt=Receipt(external_id="fact-1"), request_id="req-1"
    )
    first = await deployment.takeover("stuck", confirm)
    assert first.applied
    other = confirm.model_copy(update={"receipt": Receipt(external_id="fact-777")})
    with pytest.raises(
        CommandRefused, match=r"req-1 was used for confirm of .* with other content; give another"
    ):
        await deployment.takeover("stuck", other)
    again = {"operator": "grace", "reason": "in other words", "version": row.version + 1}
    assert await deployment.takeover("stuck", confirm.model_copy(update=again)) == first
    following = deployment.effect("stuck", "b")
    row = await deployment.wait_for_row(following, lambda row: row.state is State.QUARANTINED)
    last = command(Action.CONFIRM, row, receipt=Receipt(external_id="fact-2"))
    assert (await deployment.takeover("stuck", last)).applied
    await deployment.result("stuck")
    with pytest.raises(AlreadyOver):
        await deployment.takeover("stuck", other)
    assert await deployment.takeover("stuck", confirm) == first


async def test_an_answer_that_an_earlier_history_gave_over_is_given_when_the_task_is_over(
    deployments,
):
    deployment = await deployments()
    task = deployment.task("long", step())
    first = CommandAnswer(applied=True, message="taken")
    told = {"answered": {"req-1": first.model_dump(mode="json")}}
    await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW,
        {"task": task, "progress": told},
        id=task["task_id"],
        task_queue=deployment.task_queue,
    )
    await deployment.handle("long").terminate("ended from outside")
    take = Command(
        action=Action.TAKE, operator="ada", reason="on it", version=1, request_id="req-1"
    )
    assert await deployment.takeover("long", take) == first


async def test_a_denial_of_what_the_outside_has_is_refused(deployments):
    deployment = await deployments()
    await deployment.worker()
    deployment.outside.rules.add(Rule(submit=SubmitKnobs(commit="never", reply=Drop(how="reset"))))
    effect = deployment.effect("denied")
    deployment.make_fact(effect, amount=2)
    await deployment.submit("denied", step(kind="toy.asked"))
    row = await deployment.decidable(effect)
    answer = await deployment.takeover("denied", command(Action.DENY, row))
    assert not answer.applied
    assert "carries this id" in answer.message
    confirm = command(Action.CONFIRM, row, receipt=Receipt(external_id="another"))
    answer = await deployment.takeover("denied", confirm)
    assert not answer.applied
    assert "confirm one of these" in answer.message


async def test_whoever_waits_for_the_answer_to_a_command_can_stop_waiting(deployments):
    deployment = await deployments()  # no worker serves it
    effect = await deployment.submit("unheard", step())
    take = Command(action=Action.TAKE, operator="ada", reason="on it", version=1, effect_id=effect)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await deployment.takeover("unheard", take)


async def test_a_signal_does_what_the_update_does_and_its_refusal_stands_in_the_status(deployments):
    deployment = await deployments()
    row = await quarantined(deployment)
    handle = deployment.handle("stuck")
    await handle.signal(names.TAKEOVER, {"action": "take", "operator": "ada"})
    await wait_until(lambda: _refused(deployment, "stuck", "reason"))
    take = command(Action.TAKE, row).model_dump(mode="json", exclude_none=True)
    await handle.signal(names.TAKEOVER, take)
    await deployment.wait_for_row(row.effect_id, lambda row: row.state is State.TAKEN_OVER)


@pytest.mark.parametrize(
    "sent", [["text"], [7], [None], [[]], [{}], [{"action": "explode"}], [], [{}, {}]], ids=str
)
async def test_a_signal_that_is_no_command_is_refused_and_the_task_goes_on(deployments, sent):
    deployment = await deployments()
    await quarantined(deployment)
    handle = deployment.handle("stuck")
    await handle.signal(names.TAKEOVER, args=sent)
    await wait_until(lambda: _refused(deployment, "stuck", "not a takeover command"))


async def test_an_update_without_operator_or_reason_is_rejected_where_it_was_asked(deployments):
    deployment = await deployments()
    await quarantined(deployment)
    handle = deployment.handle("stuck")
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await handle.execute_update(names.TAKEOVER, {"action": "take", "version": 3})
    assert "operator" in str(caught.value.cause)


async def test_nobody_takes_over_while_an_attempt_is_in_flight(deployments):
    deployment = await deployments()
    await deployment.worker()
    deployment.outside.rules.add(
        Rule(times=1, submit=SubmitKnobs(commit=1.0, reply=Silence(seconds=30)))
    )
    effect = await deployment.submit("busy", step(kind="toy.slow"))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.IN_FLIGHT)
    await wait_until(lambda: _open(deployment, "busy"))
    answer = await deployment.takeover("busy", command(Action.TAKE, row))
    assert not answer.applied
    assert "do not act yet" in answer.message
    assert (await deployment.result("busy")).outcome is TaskOutcome.DONE
    assert deployment.facts(effect) == 1


async def test_the_status_says_what_is_safe_next_and_the_labels_are_searchable(deployments):
    deployment = await deployments()
    row = await quarantined(deployment)
    status = await deployment.status("stuck")
    assert status.open is not None
    assert status.open.standing is not None
    safe = {"take", "confirm", "deny", "retry", "amend", "abandon"}
    assert set(status.open.standing.safe_next) == safe
    assert status.open.effect_id == row.effect_id

    async def labelled():
        query = "TaskState = 'QUARANTINED' AND TaskErrorClass = 'no_lookup'"
        return deployment.id("stuck") in [
            found.id async for found in deployment.client.tasks(query)
        ]

    await wait_until(labelled)


async def test_a_retry_that_is_taken_over_never_fires_and_the_hand_made_fact_is_linked(deployments):
    deployment = await deployments(policy={"retry_base": 3})
    await deployment.worker()
    busy = SubmitKnobs(commit="never", reply=Answer(status=429, body={}))
    deployment.outside.rules.add(Rule(times=1, submit=busy))
    effect = await deployment.submit("by-hand", step(kind="toy.throttling"))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.CLEAR)
    assert row.retry_at is not None
    await wait_until(lambda: _open(deployment, "by-hand"))
    taken = await deployment.takeover("by-hand", command(Action.TAKE, row))
    assert taken.applied, taken.message
    made = deployment.make_fact(effect, amount=1)
    due = row.retry_at
    row = await deployment.wait_for_row(effect, lambda row: row.now > due)
    answer = await deployment.takeover("by-hand", command(Action.CONFIRM, row))
    assert answer.applied, answer.message
    result = await deployment.result("by-hand")
    assert result.outcome is TaskOutcome.DONE
    assert (await deployment.row(effect)).external_id == made.id
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def _refused(deployment, task_id, word):
    status = await deployment.status(task_id)
    return any(word in entry.detail for entry in status.refused_commands)


async def _open(deployment, task_id):
    return (await deployment.status(task_id)).open is not None


async def test_a_decision_whose_answer_was_lost_with_its_worker_is_found_in_the_ledger(deployments):
    deployment = await deployments(policy={"ask_quarantined": 0.5})
    row = await quarantined(deployment)
    await deployment.takeover("stuck", command(Action.TAKE, row))
    taken = await deployment.row(row.effect_id)
    seen = Evidence(source="person", rule="confirm", detail="ada: seen")
    settled = Verdict(State.SETTLED, seen, receipt=Receipt(external_id="seen-1"))
    await deployment.ledger.decide(row.effect_id, taken.version, Move.CONFIRM, settled, "ada")
    assert (await deployment.result("stuck")).outcome is TaskOutcome.DONE
