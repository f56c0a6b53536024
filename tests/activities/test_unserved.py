"""An effect of a kind that nobody serves now: the ledger's word is passed on, and nothing is ended by it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from activities.perform import Perform
from activities.reconcile import Reconcile
from activities.serving import Serving
from ascertain import keys, policy
from ascertain.contracts import directive, outcome
from ascertain.contracts.claim import ClaimRequest, Verdict
from ascertain.contracts.effect import Effect, Evidence, State
from ascertain.contracts.work import Work
from ascertain.ledger.model import ModelLedger

T0 = datetime(2026, 1, 1, tzinfo=UTC)
UNSENT = outcome.NotDone(error_class="refused", evidence=Evidence(source="phase", rule="connect"))


def effect(revision):
    return Effect(
        effect_id=keys.effect_id("default", "task-1", "do", revision),
        task_id="task-1",
        step="do",
        revision=revision,
        kind="toy.gone",
        partition="p",
        input={"amount": revision},
    )


async def amended(ledger):
    """What a person replaced while its kind was served."""
    old, new = effect(0), effect(1)
    fingerprint = keys.fingerprint(old.kind, old.input)
    lease = (
        await ledger.claim(ClaimRequest(old, fingerprint, b"", "w/1", timedelta(seconds=5), 5))
    ).lease
    row = (await ledger.record(lease, UNSENT)).row
    said = Evidence(source="person", rule="amend", body=policy.amendment(new))
    verdict = Verdict(State.SUPERSEDED, said, superseded_by=new.effect_id)
    await ledger.amend(row.effect_id, row.version, None, verdict, "ada")


@pytest.mark.parametrize("activity", [Perform, Reconcile])
@pytest.mark.parametrize("withdraw", [False, True])
async def test_what_was_amended_goes_on_as_what_came_instead_also_where_nobody_serves_its_kind(
    activity, withdraw
):
    ledger = ModelLedger(lambda: T0)
    await amended(ledger)
    asked = activity(Serving(ledger, {}, "worker:1"))
    turn = asked.perform if isinstance(asked, Perform) else asked.reconcile
    answer = await ActivityEnvironment().run(turn, Work(effect=effect(0), withdraw=withdraw))
    following = answer.directive
    assert isinstance(following, directive.Superseded)
    assert (following.by, following.input) == (effect(1).effect_id, {"amount": 1})
