"""Two effects that nothing outside tells apart: one fact proves at most one of them."""

from __future__ import annotations

from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Drop, Rule, SubmitKnobs
from tests.protocol.deployment import step
from tests.waiting import wait_until

LOST = SubmitKnobs(reply=Drop(how="reset"))
NEVER = SubmitKnobs(commit="never", reply=Drop(how="reset"))


async def test_a_fact_is_tied_to_one_of_two_and_the_other_is_done_once_by_that_decision(
    deployments,
):
    deployment = await deployments()
    await deployment.worker()
    first, second = deployment.effect("e1"), deployment.effect("e2")
    deployment.outside.rules.add(Rule(times=1, reference=first, submit=LOST))
    deployment.outside.rules.add(Rule(times=1, reference=second, submit=NEVER))
    for name in ("e1", "e2"):
        await deployment.submit(name, step(kind="toy.by_amount"))
    (fact,) = await wait_until(lambda: deployment.fact_ids(first))
    for effect in (first, second):
        row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
        assert row.evidence.body["candidates"] == [fact]
        await deployment.wait_for_row(
            effect, lambda row: (row.now - row.lease_until).total_seconds() > 1.1
        )
    assert (deployment.submits(first), deployment.submits(second)) == (1, 1)
    row = await deployment.row(first)
    tied = Command(
        action=Action.CONFIRM,
        operator="ada",
        reason="the payee's statement names the first",
        version=row.version,
        receipt={"external_id": fact},
    )

    async def open_in_both():
        stands = [(await deployment.status(name)).open for name in ("e1", "e2")]
        return all(opened is not None and opened.standing for opened in stands)

    await wait_until(open_in_both)
    answer = await deployment.takeover("e1", tied)
    assert answer.applied, answer.message
    assert [freed.effect_id for freed in answer.freed] == [second]
    results = [await deployment.result(name) for name in ("e1", "e2")]
    assert [result.outcome for result in results] == [TaskOutcome.DONE] * 2
    assert results[0].steps[0].receipt.external_id == fact
    assert (deployment.facts(first), deployment.facts(second)) == (1, 1)
    denied = next(e for e in await deployment.ledger.audit(second) if e.move == "deny")
    assert (denied.actor, denied.to_state) == ("ada", State.CLEAR)
    assert first in denied.evidence.detail
