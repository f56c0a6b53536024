"""An amendment closes the old effect and links the new one, whole or not at all."""

from __future__ import annotations

import pytest

from ascertain.contracts.claim import Granted, Refused, Stale
from ascertain.contracts.effect import State
from ascertain.ports import Ledger
from tests.ledger.steps import (
    PERSON,
    effect,
    granted,
    in_state,
    moved,
    request,
    settled,
    standing,
    unknown,
    verdict,
)

DENIAL = verdict(State.CLEAR, evidence=PERSON, error_class="denied")
AMENDED = verdict(State.SUPERSEDED, evidence=PERSON, superseded_by="ef1-1b")


async def test_what_is_clear_is_superseded_and_the_new_effect_can_be_claimed(
    either: Ledger,
) -> None:
    row = await in_state(either, State.CLEAR)
    closed = await moved(either.amend("ef1-1", row.version, None, AMENDED, "alice"))
    assert (closed.state, closed.superseded_by) == (State.SUPERSEDED, "ef1-1b")
    assert isinstance(await either.claim(request()), Refused)
    new = effect("1b", task_id="task-1", revision=1)
    assert isinstance(await either.claim(request("1b", effect=new)), Granted)


@pytest.mark.parametrize("state", [State.QUARANTINED, State.TAKEN_OVER])
async def test_that_there_is_nothing_is_put_on_record_in_the_same_commit(
    either: Ledger, state: State
) -> None:
    row = await in_state(either, state)
    closed = await moved(either.amend("ef1-1", row.version, DENIAL, AMENDED, "alice"))
    assert (closed.state, closed.version) == (State.SUPERSEDED, row.version + 2)
    moves = [(event.move, event.actor) for event in await either.audit("ef1-1")]
    assert moves[-2:] == [("deny", "alice"), ("supersede", "alice")]


@pytest.mark.parametrize("state", [State.UNKNOWN, State.QUARANTINED, State.TAKEN_OVER])
async def test_without_the_denial_only_what_is_clear_is_superseded(
    either: Ledger, state: State
) -> None:
    row = await in_state(either, state)
    assert await either.amend("ef1-1", row.version, None, AMENDED, "alice") == Stale(row)
    assert await standing(either) == row


@pytest.mark.parametrize(
    ("state", "shift", "by"),
    [(State.QUARANTINED, -1, "alice"), (State.TAKEN_OVER, 0, "bob"), (State.UNKNOWN, 0, "alice")],
)
async def test_an_amendment_that_may_not_be_made_leaves_no_denial_behind(
    either: Ledger, state: State, shift: int, by: str
) -> None:
    row = await in_state(either, state)
    before = await either.audit("ef1-1")
    assert await either.amend("ef1-1", row.version + shift, DENIAL, AMENDED, by) == Stale(row)
    assert await either.audit("ef1-1") == before


async def test_a_receipt_that_came_late_stands_against_an_amendment_and_its_denial(
    either: Ledger,
) -> None:
    lease = await granted(either)
    await either.record(lease, unknown())
    row = await standing(either)
    stop = verdict(State.QUARANTINED)
    row = await moved(either.converge("ef1-1", row.version, stop, "reconcile"))
    await either.record(lease, settled())
    assert await either.amend("ef1-1", row.version, DENIAL, AMENDED, "alice") == Stale(row)
    assert (await either.audit("ef1-1"))[-1].move == "refused_write"
