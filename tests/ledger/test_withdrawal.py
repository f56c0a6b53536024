"""What a cancelled task leaves behind, so that nobody does its effect later."""

from __future__ import annotations

import asyncio

import pytest

from ascertain.contracts.claim import Conflict, Granted, Moved, Refused, Stale, Unresolved
from ascertain.contracts.effect import State
from ascertain.ledger.postgres import PostgresLedger
from ascertain.ports import Ledger
from tests.ledger.conftest import Clock
from tests.ledger.steps import (
    LEASE,
    effect,
    granted,
    in_state,
    moved,
    receipt,
    request,
    settled,
    standing,
    verdict,
)

FINGERPRINT = "f" * 64


async def test_what_was_never_claimed_is_closed_and_refuses_every_later_claim(
    either: Ledger,
) -> None:
    row = await moved(either.withdraw(effect(), FINGERPRINT, "w"))
    assert (row.state, row.version, row.attempt, row.lease_version) == (State.ABANDONED, 1, 0, 0)
    assert await either.claim(request()) == Refused(row)
    assert await standing(either) == row
    assert [event.move for event in await either.audit("ef1-1")] == ["withdraw"]


async def test_what_is_proven_not_to_exist_is_closed_though_it_was_to_be_tried_again(
    either: Ledger,
) -> None:
    await in_state(either, State.CLEAR)
    row = await moved(either.withdraw(effect(), FINGERPRINT, "w"))
    assert (row.state, row.attempt, row.retry_at) == (State.ABANDONED, 1, None)
    assert isinstance(await either.claim(request()), Refused)


@pytest.mark.parametrize("state", [state for state in State if state is not State.CLEAR])
async def test_what_is_under_way_in_doubt_or_closed_stays_as_it_is(
    either: Ledger, state: State
) -> None:
    row = await in_state(either, state)
    assert await either.withdraw(effect(), FINGERPRINT, "w") == Stale(row)


async def test_what_a_late_receipt_proves_is_not_closed(either: Ledger, clock: Clock) -> None:
    zombie = await granted(either, owner="zombie")
    await clock.advance(LEASE)
    fenced = await either.claim(request())
    assert isinstance(fenced, Unresolved)
    absent = verdict(State.CLEAR)
    clear = await moved(either.converge("ef1-1", fenced.row.version, absent, "reconcile"))
    await either.record(zombie, settled())
    assert await either.withdraw(effect(), FINGERPRINT, "w") == Stale(clear)
    found = verdict(State.SETTLED, receipt=receipt())
    await moved(either.converge("ef1-1", clear.version, found, "reconcile"))


async def test_other_content_under_the_id_is_a_conflict_and_stays(either: Ledger) -> None:
    row = await in_state(either, State.CLEAR)
    answer = await either.withdraw(effect(), "e" * 64, "w")
    assert answer == Conflict(stored=FINGERPRINT, offered="e" * 64)
    assert await standing(either) == row


async def test_the_live_effect_of_a_step_is_a_conflict_for_another_of_it(either: Ledger) -> None:
    await in_state(either, State.CLEAR)
    amended = effect("1b", task_id="task-1", revision=1)
    answer = await either.withdraw(amended, "e" * 64, "w")
    assert answer == Conflict(stored=FINGERPRINT, offered="e" * 64)
    assert await either.inspect("ef1-1b") is None


async def test_a_first_claim_and_a_withdrawal_at_once_never_both_succeed(
    ledger: PostgresLedger,
) -> None:
    for number in range(20):
        name = f"race-{number}"
        claimed, withdrawn = await asyncio.gather(
            ledger.claim(request(name)), ledger.withdraw(effect(name), FINGERPRINT, "w")
        )
        assert isinstance(claimed, Granted) is not isinstance(withdrawn, Moved)
