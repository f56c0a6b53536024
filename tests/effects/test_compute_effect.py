"""Pure computation through a real worker: no claim unless a try failed, and then every try is counted."""

from __future__ import annotations

from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from tests.effects.serving import doing, serve

KIND = "price.quote"


async def serving(deployment, name: str, **policy):
    options = {"function": f"tests.adapters.formula:{name}"}
    return await serve(deployment, KIND, "compute", options, policy=policy)


async def test_a_computation_needs_no_claim_and_leaves_no_row(deployments):
    deployment = await deployments()
    await serving(deployment, "double")
    effect = await deployment.submit("pure", doing(KIND, number=21))
    result = await deployment.result("pure")
    assert result.outcome is TaskOutcome.DONE
    assert result.steps[0].receipt.body["result"]["doubled"] == 42
    assert await deployment.ledger.inspect(effect) is None


async def test_a_computation_whose_process_died_is_computed_again_under_a_claim(
    deployments, tmp_path
):
    deployment = await deployments()
    await serving(deployment, "dies_once")
    effect = await deployment.submit("dies", doing(KIND, mark=str(tmp_path / "mark")))
    result = await deployment.result("dies")
    assert result.outcome is TaskOutcome.DONE
    assert await deployment.moves(effect) == ["claim", "settle"]


async def test_a_computation_that_always_fails_ends_with_a_person_within_the_budget(deployments):
    deployment = await deployments()
    await serving(deployment, "dies", budget=2)
    effect = await deployment.submit("fails", doing(KIND, number=1))
    row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
    assert row.error_class == "budget"
    assert row.attempt == 2
