"""What stands in search attributes, where people look for tasks without asking a worker."""

from __future__ import annotations

from ascertain.contracts import names
from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import Receipt, State
from ascertain.testing.knob import Answer, Drop, Rule, SubmitKnobs
from tests.protocol.deployment import step
from tests.waiting import wait_until


async def labelled(deployment, task_id, state, error_class=None):
    async def fits():
        labels = (await deployment.handle(task_id).describe()).search_attributes
        found = labels.get(names.TASK_STATE), labels.get(names.TASK_ERROR_CLASS, [])
        return found == ([state], [] if error_class is None else [error_class])

    await wait_until(fits, what=f"{task_id} labelled {state} {error_class}")


async def test_a_step_that_runs_smoothly_is_not_labelled_with_what_kept_the_one_before(deployments):
    deployment = await deployments()
    await deployment.worker()
    first, second = (deployment.effect("labels", name) for name in "ab")
    lost = SubmitKnobs(reply=Drop(how="reset"))
    deployment.outside.rules.add(Rule(key=first, times=1, submit=lost))
    slow = SubmitKnobs(reply=Answer(after_s=0.9))
    deployment.outside.rules.add(Rule(key=second, submit=slow))
    await deployment.submit("labels", step("a", "toy.neither"), step("b", "toy.slow"))
    await labelled(deployment, "labels", "QUARANTINED", "no_lookup")
    fits = lambda row: row.state is State.QUARANTINED and row.now > row.lease_until  # noqa: E731
    row = await deployment.wait_for_row(first, fits)
    exists = Command(
        action=Action.CONFIRM,
        operator="ada",
        reason="seen in the books",
        version=row.version,
        receipt=Receipt(external_id=deployment.outside.books.facts_of(first)[0].id),
    )
    assert (await deployment.takeover("labels", exists)).applied
    await deployment.outside.books.wait_for("submit", key=second)
    await labelled(deployment, "labels", "RUNNING")
    await deployment.result("labels")
    await labelled(deployment, "labels", "DONE")


async def test_another_cause_in_the_same_state_is_written_down(deployments):
    deployment = await deployments(policy={"retry_base": 1})
    await deployment.worker()
    never = SubmitKnobs(commit="never", reply=Drop(how="reset"))
    effect = deployment.effect("cause")
    deployment.outside.rules.add(Rule(key=effect, times=1, submit=never))
    full = SubmitKnobs(commit="never", reply=Answer(status=429))
    deployment.outside.rules.add(Rule(key=effect, submit=full))
    await deployment.submit("cause", step(kind="toy.throttling"))
    await labelled(deployment, "cause", "CLEAR", "absent")
    row = await deployment.wait_for_row(
        effect, lambda row: row.state is State.CLEAR and row.attempt > 1
    )
    assert row.error_class != "absent"
    await labelled(deployment, "cause", "CLEAR", row.error_class)
