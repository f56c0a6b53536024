"""What stands in search attributes, where people look for tasks without asking a worker."""

from __future__ import annotations

import json

from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.testing.knob import Answer, Drop, Rule, SubmitKnobs
from tests.protocol.deployment import seen, step
from tests.waiting import wait_until


async def labelled(deployment, task_id, state, error_class=None):
    async def fits():
        labels = (await deployment.handle(task_id).describe()).search_attributes
        found = labels.get(names.TASK_STATE), labels.get(names.TASK_ERROR_CLASS, [])
        return found == ([state], [] if error_class is None else [error_class])

    await wait_until(fits, what=f"{task_id} labelled {state} {error_class}")


async def labels_of(deployment, task_id):
    """State and error class each time that they were written; also what stood there for a moment only."""
    found = []
    async for event in deployment.handle(task_id).fetch_history_events():
        attributes = event.upsert_workflow_search_attributes_event_attributes.search_attributes
        written = {name: value.data for name, value in attributes.indexed_fields.items()}
        if names.TASK_STATE in written:
            labels = (written[name] for name in (names.TASK_STATE, names.TASK_ERROR_CLASS))
            found.append(tuple(json.loads(label) if label else None for label in labels))
    return found


async def test_a_step_that_runs_smoothly_is_not_labelled_with_what_kept_the_one_before(deployments):
    deployment = await deployments()
    await deployment.worker()
    first, second = (deployment.effect("labels", name) for name in "ab")
    lost = SubmitKnobs(reply=Drop(how="reset"))
    deployment.outside.rules.add(Rule(key=first, times=1, submit=lost))
    await deployment.submit("labels", step("a", "toy.neither"), step("b", "toy.slow"))
    await labelled(deployment, "labels", "QUARANTINED", "no_lookup")
    fits = lambda row: row.state is State.QUARANTINED and row.now > row.lease_until  # noqa: E731
    row = await deployment.wait_for_row(first, fits)
    (fact,) = await deployment.fact_ids(first)
    assert (await deployment.takeover("labels", seen(row, fact))).applied
    await deployment.result("labels")
    await labelled(deployment, "labels", "DONE")
    assert deployment.submits(second) == 1
    told = await labels_of(deployment, "labels")
    following = told[told.index(("QUARANTINED", "no_lookup")) + 1 :]
    assert following[0] == ("RUNNING", None)
    assert following[-1] == ("DONE", None)


async def test_another_cause_in_the_same_state_is_written_down(deployments):
    deployment = await deployments()
    await deployment.worker()
    never = SubmitKnobs(commit="never", reply=Drop(how="reset"))
    effect = deployment.effect("cause")
    deployment.outside.rules.add(Rule(key=effect, times=1, submit=never))
    full = SubmitKnobs(commit="never", reply=Answer(status=429))
    deployment.outside.rules.add(Rule(key=effect, times=1, submit=full))
    await deployment.submit("cause", step(kind="toy.throttling"))
    await deployment.result("cause")
    told = await labels_of(deployment, "cause")
    absent = told.index(("CLEAR", "absent"))
    (state, error_class) = told[absent + 1]
    assert state == "CLEAR"
    assert error_class not in {None, "absent"}
