"""A partition that a rule closes: what people see, and how it opens again by itself."""

from __future__ import annotations

import asyncio
import re

from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Answer, Drop, LookupKnobs, Rule, SubmitKnobs
from tests.protocol.deployment import step
from tests.waiting import wait_until

LOST = SubmitKnobs(commit="never", reply=Drop(how="reset"))
DOWN = LookupKnobs(reply=Answer(status=503, body={}))
LATER = 3600.0
# A machine that is very busy may keep an attempt from leaving, which counts as one more.
WHY = r"unknown_share: 3 of \d attempts within 300 s ended in doubt \(\d+%; limit 50%\)"


async def gate(deployment, *, paused):
    """The gate of eur, as soon as it stands like this."""

    async def stands():
        known = {gate.partition: gate for gate in await deployment.ledger.gates()}
        found = known.get("eur")
        return found if found is not None and found.paused is paused else None

    return await wait_until(stands, 60, what=f"the gate, paused: {paused}")


async def closed(deployment):
    """Three tasks whose answers are lost, and the gate that closes after them."""
    deployment.outside.rules.add(Rule(submit=LOST))
    deployment.outside.rules.add(Rule(lookup=DOWN))
    await deployment.worker()
    names = [f"lost-{number}" for number in range(3)]
    for name in names:
        await deployment.submit(name, step(), partition="eur")
    return names, await gate(deployment, paused=True)


def breaker(probe_after):
    return {"unknown_share": 0.5, "of_at_least": 3, "probe_after": probe_after, "probes": 1}


async def test_a_partition_whose_answers_are_lost_is_closed_and_says_why_wherever_one_looks(
    deployments,
):
    deployment = await deployments(breakers=[breaker(LATER)])
    names, shut = await closed(deployment)
    said = shut.reason
    assert (shut.by, shut.rule) == ("breaker", "unknown_share")
    assert re.fullmatch(WHY, said)

    async def noted():
        trails = [await deployment.ledger.audit(deployment.effect(name)) for name in names]
        return any(said in event.evidence.detail for trail in trails for event in trail)

    await wait_until(noted, what="the note on a trail")
    held = await deployment.submit("held", step(), partition="eur")
    other = await deployment.submit("other", step(kind="toy.keyed"), partition="usd")
    assert (await deployment.result("other")).outcome is TaskOutcome.DONE

    async def reason():
        status = await deployment.status("held")
        return status.open is not None and status.state == "HELD" and status.open.reason

    assert await wait_until(reason) == f"paused by breaker: {said}"
    assert (deployment.submits(held), deployment.facts(other)) == (0, 1)
    # What is in doubt is asked for behind the closed gate, and a person opens it when they want.
    deployment.outside.rules.clear()
    for name in names:
        await deployment.wait_for_row(
            deployment.effect(name), lambda row: row.state in {State.CLEAR, State.SETTLED}
        )
    await deployment.gate("eur", paused=False)
    results = await asyncio.gather(*(deployment.result(name) for name in [*names, "held"]))
    assert {result.outcome for result in results} == {TaskOutcome.DONE}
    assert [deployment.facts(deployment.effect(name)) for name in [*names, "held"]] == [1] * 4
    opened = await gate(deployment, paused=False)
    assert (opened.by, opened.rule) == ("ada", None)


async def test_a_closed_partition_opens_by_itself_when_a_probe_is_answered(deployments):
    deployment = await deployments(breakers=[breaker(0.5)])
    names, _ = await closed(deployment)
    await deployment.submit("held", step(), partition="eur")
    deployment.outside.rules.clear()
    names.append("held")
    results = await asyncio.gather(*(deployment.result(name) for name in names))
    assert {result.outcome for result in results} == {TaskOutcome.DONE}
    assert [deployment.facts(deployment.effect(name)) for name in names] == [1] * 4
    opened = await gate(deployment, paused=False)
    assert (opened.by, opened.reason) == ("breaker", "its probes were answered: 1 of 1")


async def test_many_that_wait_for_an_outside_that_cannot_be_asked_are_one_notice(deployments):
    deployment = await deployments()
    deployment.outside.rules.add(Rule(submit=LOST))
    deployment.outside.rules.add(Rule(lookup=DOWN))
    await deployment.worker()
    names = [f"down-{number}" for number in range(5)]
    for name in names:
        await deployment.submit(name, step(), partition="eur")

    async def one_notice():
        outages = await deployment.ledger.outages()
        return outages if outages and outages[0].waiting == 5 else None

    (outage,) = await wait_until(one_notice, what="the notice")
    assert (outage.partition, outage.kind) == ("eur", "toy.fact")

    async def told():
        status = await deployment.status(names[0])
        return status.open is not None and " cannot be asked since " in status.open.reason

    await wait_until(told)
    deployment.outside.rules.clear()
    for name in names:
        await deployment.hurry(name)
    results = await asyncio.gather(*(deployment.result(name) for name in names))
    assert {result.outcome for result in results} == {TaskOutcome.DONE}
    assert await deployment.ledger.outages() == []
