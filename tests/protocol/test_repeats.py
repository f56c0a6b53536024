"""A request that comes again gets its first answer, whatever its task has come to by then."""

from __future__ import annotations

from ascertain.contracts import names
from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import State
from ascertain.testing.knob import Drop, Rule, SubmitKnobs
from tests.protocol.deployment import step
from tests.protocol.test_four_eyes import LIMIT, stuck as above_limit
from tests.protocol.test_person import quarantined
from tests.protocol.test_undo import TAKE_BACK, stuck, undo
from tests.waiting import wait_until

LOST = SubmitKnobs(commit="never", reply=Drop(how="reset"))
SEEN = {"receipt": {"external_id": "seen-1"}}
CHANGED = {"input": {"amount": 2}, "evidence": {"seen": "nothing"}}
# By step, what is decided of it and from which state; the last of each lets the task go on.
DECIDED = {
    "a": [
        (State.QUARANTINED, Action.TAKE, {}),
        (State.TAKEN_OVER, Action.RELEASE, {}),
        (State.QUARANTINED, Action.RETRY, {}),
        (State.QUARANTINED, Action.CONFIRM, SEEN),
    ],
    "b": [(State.QUARANTINED, Action.DENY, {})],
    "c": [(State.QUARANTINED, Action.AMEND, CHANGED)],
}


def json_of(command):
    return command.model_dump(mode="json", exclude_none=True)


async def heard(deployment, task_id, *commands):
    """Signal commands, and wait until the task has heard them all: an update is answered after them."""
    for command in commands:
        await deployment.handle(task_id).signal(names.TAKEOVER, json_of(command))
    nobody = Command(action=Action.TAKE, operator="ada", reason="the last word", version=1)
    assert not (await deployment.takeover(task_id, nobody)).applied


async def test_an_undo_that_comes_again_gets_the_first_answer(deployments):
    deployment = await deployments()
    steps = ({**step("a"), "undo": TAKE_BACK}, step("b", "toy.neither"))
    first, _ = await stuck(deployment, "again", *steps)
    order = undo(first, request_id="req-1")
    answer = await deployment.takeover("again", order)
    undone = deployment.effect("again", "a~undo")
    await deployment.wait_for_row(undone, lambda row: row.state is State.SETTLED)
    assert await deployment.takeover("again", order) == answer
    await heard(deployment, "again", order)
    assert (await deployment.status("again")).refused_commands == ()
    assert deployment.submits(undone) == 1
    assert (await deployment.moves(first.effect_id)).count("note") == 1


async def decided(deployment, task_id, name, state, action, fields):
    """A command that was given until it was applied, and what it was answered."""
    effect = deployment.effect(task_id, name)
    row = await deployment.wait_for_row(effect, lambda row: row.state is state)
    command = Command(
        action=action,
        operator="ada",
        reason="looked at it",
        version=row.version,
        effect_id=effect,
        request_id=f"{name}-{action}",
        **fields,
    )

    async def applied():
        answer = await deployment.takeover(task_id, command)
        return answer if answer.applied else None

    return command, await wait_until(applied)


async def test_what_decided_an_earlier_step_comes_again_and_gets_the_first_answer(deployments):
    deployment = await deployments()
    await deployment.worker()
    steps = [step(name, "toy.neither") for name in (*DECIDED, "last")]
    for one in steps:
        reference = deployment.effect("long", one["name"])
        deployment.outside.rules.add(Rule(reference=reference, times=1, submit=LOST))
    await deployment.submit("long", *steps)
    given = [
        await decided(deployment, "long", name, *turn)
        for name, turns in DECIDED.items()
        for turn in turns
    ]
    last = deployment.effect("long", "last")
    await deployment.wait_for_row(last, lambda row: row.state is State.QUARANTINED)
    for command, answer in given:
        assert await deployment.takeover("long", command) == answer
    await heard(deployment, "long", *(command for command, _ in given))
    assert (await deployment.status("long")).refused_commands == ()


async def test_a_command_that_waits_for_a_second_person_comes_again_after_that_one_applied_it(
    deployments,
):
    deployment = await deployments(policy=LIMIT)
    row = await above_limit(deployment)
    deny = {"action": Action.DENY, "reason": "looked", "version": row.version}
    first = Command(operator="ada", request_id="req-1", **deny)
    waits = await deployment.takeover("pay", first)
    assert waits.pending
    await heard(deployment, "pay", first)
    assert len((await deployment.status("pay")).pending_commands) == 1
    deployment.outside.rules.add(Rule(times=1, submit=LOST))
    second = Command(operator="grace", request_id="req-2", **deny)
    applied = await deployment.takeover("pay", second)
    assert applied.applied, applied.message
    await deployment.wait_for_row(
        row.effect_id, lambda row: (row.attempt, row.state) == (2, State.QUARANTINED)
    )
    for said, answer in ((first, waits), (second, applied)):
        assert await deployment.takeover("pay", said) == answer
    assert deployment.submits(row.effect_id) == 2


async def test_a_command_that_comes_with_the_first_words_of_a_new_history_is_heard(deployments):
    deployment = await deployments()
    row = await quarantined(deployment, "moved")
    await deployment.handle("moved").terminate("its history was too long")
    take = Command(
        action=Action.TAKE, operator="ada", reason="new", version=row.version, request_id="req-1"
    )
    content = {"task": deployment.task("moved", step(kind="toy.neither")), "progress": {}}
    await deployment.client.temporal.start_workflow(
        names.TASK_WORKFLOW,
        content,
        id=deployment.id("moved"),
        task_queue=deployment.task_queue,
        start_signal=names.TAKEOVER,
        start_signal_args=[json_of(take)],
    )
    await deployment.wait_for_row(row.effect_id, lambda row: row.state is State.TAKEN_OVER)
    assert (await deployment.status("moved")).refused_commands == ()
    assert (await deployment.takeover("moved", take)).applied
