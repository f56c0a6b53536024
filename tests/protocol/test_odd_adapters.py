"""An adapter that breaks its contract costs a question, never a task, a fact or a secret."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone

import asyncpg
import pytest

from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Drop, SubmitKnobs
from tests.lost_commit import lost_commit
from tests.protocol.deployment import ROOT, seen, step
from tests.protocol.kinds import MORTAL, POLICY
from tests.protocol.odd_adapter import SECRET
from tests.protocol.test_watching import watched
from tests.protocol.watching import value
from tests.waiting import wait_until

UNCLASSIFIED = ["raises no Exception", "cancels itself", "exits", "gives nothing"]


async def serving(deployment, way, **policy):
    """A worker of a kind that is odd in this way."""
    deployment.settings["kinds"]["toy.odd"] = {
        "adapter": "tests.protocol.odd_adapter:create",
        "options": {"way": way, "url": deployment.outside.url},
        "policy": {**POLICY, **policy},
    }
    deployment.configure()
    return await deployment.worker()


@pytest.mark.parametrize("way", UNCLASSIFIED)
async def test_whatever_an_adapter_does_not_classify_is_doubt_and_is_asked_for(deployments, way):
    deployment = await deployments()
    worker = await serving(deployment, way)
    effect = await deployment.submit("odd", step(kind="toy.odd"))
    result = await deployment.result("odd")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
    assert await deployment.moves(effect) == ["claim", "doubt", "find"]
    history = await deployment.handle("odd").fetch_history()
    assert SECRET not in history.to_json() + worker.log.read_text()


@pytest.mark.parametrize("way", ["tells too much", "tells what cannot be written"])
async def test_an_answer_that_is_too_large_or_cannot_be_written_still_settles_once_and_says_so(
    deployments, way
):
    deployment = await deployments()
    await serving(deployment, way)
    effect = await deployment.submit("odd", step(kind="toy.odd"))
    result = await deployment.result("odd")
    receipt = result.steps[0].receipt
    assert result.outcome is TaskOutcome.DONE
    assert receipt.truncated
    assert receipt.body == {"id": receipt.external_id}
    assert await deployment.moves(effect) == ["claim", "settle"]
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def test_an_id_that_cannot_be_written_is_doubt_and_the_fact_is_found(deployments):
    deployment = await deployments()
    await serving(deployment, "names what cannot be written")
    effect = await deployment.submit("odd", step(kind="toy.odd"))
    assert (await deployment.result("odd")).outcome is TaskOutcome.DONE
    assert await deployment.moves(effect) == ["claim", "doubt", "find"]
    assert deployment.facts(effect) == 1


async def test_a_loop_that_was_blocked_past_its_lease_sends_nothing_under_it(deployments):
    deployment = await deployments()
    await serving(deployment, "blocks the loop before", **MORTAL)
    effect = await deployment.submit("odd", step(kind="toy.odd"))
    assert (await deployment.result("odd")).outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
    assert "permit_lost" in [event.evidence.rule for event in await deployment.ledger.audit(effect)]


async def test_a_loop_that_is_blocked_after_its_call_makes_no_second_fact_and_is_named_and_counted(
    deployments,
):
    deployment, port, _ = await watched(deployments)
    worker = await serving(deployment, "blocks the loop after")
    assert await value(port, "ascertain_loop_held_total", kind="toy.odd") == 0
    effect = await deployment.submit("odd", step(kind="toy.odd"))
    assert (await deployment.result("odd")).outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
    held = f"by toy.odd {effect}, at {ROOT}/tests/protocol/odd_adapter.py:"
    assert held in worker.log.read_text()
    assert await value(port, "ascertain_loop_held_total", kind="toy.odd") == 1


async def test_an_adapter_that_kills_its_worker_after_its_call_leaves_one_fact(deployments):
    deployment = await deployments()
    worker = await serving(deployment, "kills its worker", lease=3)
    effect = await deployment.submit("odd", step(kind="toy.odd"))
    assert await worker.process.wait() == 70
    await deployment.worker()
    assert (await deployment.result("odd")).outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
    assert await deployment.moves(effect) == ["claim", "fence", "find"]


async def test_an_adapter_that_always_kills_its_worker_is_counted_and_ends_with_a_person(
    deployments,
):
    deployment = await deployments()
    worker = await serving(deployment, "kills its worker every time", budget=2, lease=3)
    effect = await deployment.submit("odd", step(kind="toy.odd"))
    for _ in range(2):
        assert await worker.process.wait() == 70
        worker = await deployment.worker()
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    assert (row.attempt, row.error_class) == (2, "budget")
    assert deployment.facts(effect) == 0


@pytest.mark.parametrize("way", ["prepare raises", "prepares text"])
async def test_an_adapter_that_cannot_prepare_keeps_its_task_waiting_and_says_so(deployments, way):
    deployment = await deployments()
    worker = await serving(deployment, way)
    effect = await deployment.submit("odd", step(kind="toy.odd"))

    async def told():
        shown = (await deployment.status("odd")).open
        return shown is not None and "failed to prepare" in shown.reason

    await wait_until(told)
    assert deployment.submits(effect) == 0
    assert await deployment.ledger.inspect(effect) is None
    history = await deployment.handle("odd").fetch_history()
    assert SECRET not in history.to_json() + worker.log.read_text()


async def test_a_request_too_large_to_be_kept_is_refused_on_the_record(deployments):
    deployment = await deployments()
    await serving(deployment, "prepares too much")
    effect = await deployment.submit("odd", step(kind="toy.odd"))
    assert (await deployment.result("odd")).outcome is TaskOutcome.REFUSED
    assert (await deployment.row(effect)).error_class == "invalid_input"
    assert deployment.submits(effect) == 0


async def test_an_activity_that_fails_ends_no_task(deployments):
    deployment = await deployments()
    await deployment.worker()
    renamed = "alter table ascertain.effects rename to"
    connection = await asyncpg.connect(deployment.ledger_url)
    await connection.execute(f"{renamed} mislaid")
    effect = await deployment.submit("odd", step(kind="toy.asked"))

    async def told():
        shown = (await deployment.status("odd")).open
        return shown is not None and "ended without an answer" in shown.reason

    await wait_until(told)
    await connection.execute("alter table ascertain.mislaid rename to effects")
    await connection.close()
    assert (await deployment.result("odd")).outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)


async def test_a_command_whose_activity_fails_is_answered_and_the_task_goes_on(deployments):
    deployment = await deployments()
    await deployment.worker()
    deployment.meet(SubmitKnobs(reply=Drop(how="reset")))
    effect = await deployment.submit("odd", step(kind="toy.neither"))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    connection = await asyncpg.connect(deployment.ledger_url)
    await connection.execute(
        "alter table ascertain.effects add constraint effects_odd check (state <> 'SETTLED')"
    )
    answer = await deployment.takeover("odd", seen(row))
    await connection.execute("alter table ascertain.effects drop constraint effects_odd")
    await connection.close()
    assert (answer.applied, answer.in_doubt) == (False, True)
    assert answer.message.startswith("not known to be applied")
    assert (await deployment.row(effect)).state is State.QUARANTINED
    assert (await deployment.takeover("odd", seen(row))).applied
    assert (await deployment.result("odd")).outcome is TaskOutcome.DONE


async def test_a_decision_that_was_committed_and_not_answered_is_given_again_and_answered(
    deployments,
):
    """A task in quarantine that asks nobody again would not hear of it by itself."""
    deployment = await deployments(policy={"ask_quarantined": 3600})
    await deployment.worker()
    deployment.meet(SubmitKnobs(reply=Drop(how="reset")))
    effect = await deployment.submit("odd", step(kind="toy.neither"))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    async with lost_commit(deployment.ledger_url):
        deciding = asyncio.create_task(deployment.takeover("odd", seen(row)))
    answer = await deciding
    assert (answer.applied, answer.in_doubt) == (True, False)
    assert (await deployment.result("odd")).outcome is TaskOutcome.DONE
    assert (await deployment.row(effect)).external_id == "seen-1"


async def test_a_time_that_no_clock_has_is_no_time_at_which_it_happened(deployments):
    """Some give the first moment of all, in their own zone, where they have none."""
    deployment = await deployments()
    await deployment.worker()
    deployment.meet(SubmitKnobs(reply=Drop(how="reset")))
    effect = await deployment.submit("odd", step(kind="toy.neither"))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    long_ago = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    assert (await deployment.takeover("odd", seen(row, happened_at=long_ago))).applied
    assert (await deployment.result("odd")).outcome is TaskOutcome.DONE
    assert (await deployment.row(effect)).happened_at is None
