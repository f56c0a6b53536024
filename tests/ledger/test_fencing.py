"""A worker that lost its claim can do nothing to the claim that follows, whatever it is called."""

from __future__ import annotations

import pytest

from ascertain.contracts.claim import Lease, Moved, Paused, Stale, Unresolved
from ascertain.contracts.effect import State
from ascertain.contracts.gate import GateChange
from ascertain.contracts.outcome import Outcome
from ascertain.errors import NotFound
from ascertain.machine import Move
from ascertain.ports import Ledger
from tests.ledger.conftest import Clock
from tests.ledger.steps import (
    ANSWER,
    LEASE,
    SEEN,
    accepted,
    granted,
    moved,
    not_done,
    receipt,
    refused,
    request,
    settled,
    standing,
    unknown,
    verdict,
)

OWNER = "host-1-w0"


async def second_generation(ledger: Ledger, clock: Clock) -> tuple[Lease, Lease]:
    """The same owner's name holds generation 1, stalls, and holds a later generation."""
    first = await granted(ledger, owner=OWNER)
    await clock.advance(LEASE)
    fenced = await ledger.claim(request(owner=OWNER))
    assert isinstance(fenced, Unresolved)
    await moved(ledger.converge("ef1-1", fenced.row.version, verdict(State.CLEAR), "reconcile"))
    return first, await granted(ledger, owner=OWNER)


@pytest.mark.parametrize(
    "late", [settled(), accepted(), refused(), not_done(), unknown()], ids=lambda late: late.type
)
async def test_no_write_of_an_old_generation_touches_the_new_one_of_the_same_name(
    either: Ledger, clock: Clock, late: object
) -> None:
    first, second = await second_generation(either, clock)
    before = await standing(either)
    assert (first.owner, first.lease_version, second.lease_version) == (OWNER, 1, 3)
    assert await either.record(first, late) == Stale(before)  # type: ignore[arg-type]
    assert await standing(either) == before
    assert isinstance(await either.record(second, settled("fact-2")), Moved)


async def test_an_old_generation_cannot_renew(either: Ledger, clock: Clock) -> None:
    first, second = await second_generation(either, clock)
    before = await standing(either)
    assert await either.renew(first, LEASE * 100) == Stale(before)
    assert isinstance(await either.renew(second, LEASE), Moved)


async def test_the_operator_sees_the_refused_write_with_both_generations(
    either: Ledger, clock: Clock
) -> None:
    first, second = await second_generation(either, clock)
    await either.record(first, accepted("job-7"))
    *_, granted_event, refused_event = await either.audit("ef1-1")
    assert granted_event.lease_version == second.lease_version
    assert (refused_event.move, refused_event.actor) == ("refused_write", OWNER)
    assert (refused_event.lease_version, refused_event.attempt) == (1, 1)
    assert refused_event.from_state is refused_event.to_state is State.IN_FLIGHT
    assert refused_event.evidence.source == "late_write"
    assert refused_event.evidence.body == {
        **ANSWER.body,
        "outcome": "accepted",
        "job_id": "job-7",
    }


async def test_a_late_receipt_is_kept_and_shown(either: Ledger, clock: Clock) -> None:
    first, _ = await second_generation(either, clock)
    await either.record(first, settled("fact-late", body={"n": 1}))
    await either.record(first, not_done())
    case = await either.inspect("ef1-1")
    assert case is not None
    assert [event.receipt for event in case.late] == [receipt("fact-late", body={"n": 1})]
    trail = await either.audit("ef1-1")
    assert list(case.late) == [event for event in trail if event.receipt is not None]


async def test_a_write_after_the_effect_is_closed_is_kept_too(either: Ledger, clock: Clock) -> None:
    lease = await granted(either)
    closed = await moved(either.record(lease, settled()))
    assert await either.record(lease, settled("fact-2")) == Stale(closed)
    assert [event.move for event in await either.audit("ef1-1")] == [
        "claim",
        "settle",
        "refused_write",
    ]


async def test_a_write_for_an_effect_that_was_never_claimed_is_stale_and_leaves_nothing(
    either: Ledger,
) -> None:
    nobody = Lease("ef1-none", "w", 1, 1)
    assert await either.record(nobody, settled()) == Stale(None)
    assert await either.renew(nobody, LEASE) == Stale(None)
    assert await either.fence("ef1-none", 1, "sweep") == Stale(None)
    assert await either.audit("ef1-none") in ([], ())


async def test_an_open_lease_cannot_be_fenced(either: Ledger, clock: Clock) -> None:
    await granted(either)
    await clock.advance(LEASE / 2)
    before = await standing(either)
    assert await either.fence("ef1-1", 1, "sweep") == Stale(before)
    await clock.advance(LEASE / 2)
    row = await moved(either.fence("ef1-1", 1, "sweep"))
    assert (row.state, row.lease_version, row.error_class) == (State.UNKNOWN, 2, "fenced")


async def test_a_renewal_lengthens_and_never_shortens(either: Ledger, clock: Clock) -> None:
    lease = await granted(either)
    await clock.advance(LEASE * 100)
    row = await moved(either.renew(lease, LEASE))
    assert (row.lease_until, row.last_heartbeat_at) == (clock.now + LEASE, clock.now)
    shorter = await moved(either.renew(lease, LEASE / 2))
    assert shorter.lease_until == row.lease_until
    assert shorter.state_since == row.state_since


async def test_an_observation_moves_nothing(either: Ledger) -> None:
    await granted(either)
    before = await standing(either)
    await either.note("ef1-1", "reconcile", SEEN)
    assert await standing(either) == before
    *_, event = await either.audit("ef1-1")
    assert (event.move, event.evidence, event.version) == ("note", SEEN, 1)


async def test_an_observation_of_an_unknown_effect_is_an_error(either: Ledger) -> None:
    with pytest.raises(NotFound):
        await either.note("ef1-none", "reconcile", SEEN)


async def test_the_taker_is_forgotten_when_automation_goes_on(either: Ledger) -> None:
    await either.record(await granted(either), unknown())
    for move, state in [(Move.RETRY, State.UNKNOWN), (Move.RELEASE, State.UNKNOWN)]:
        row = await standing(either)
        row = await moved(
            either.decide("ef1-1", row.version, Move.TAKE, verdict(State.TAKEN_OVER), "alice")
        )
        row = await moved(either.decide("ef1-1", row.version, move, verdict(state), "alice"))
        assert (row.taken_by, row.budget_from) == (None, 1)


async def test_a_closed_gate_stops_a_renewal_and_nothing_is_stored(
    either: Ledger, clock: Clock
) -> None:
    lease = await granted(either)
    closing = GateChange(partition="p", paused=True, by="alice", reason="x", request_id="r1")
    gate = await either.set_gate(closing)
    before = await standing(either)
    assert await either.renew(lease, LEASE) == Paused("p", gate.since, "alice", "x")
    assert await standing(either) == before
    assert len(await either.audit("ef1-1")) == 1
    assert isinstance(await either.record(lease, settled()), Moved)


@pytest.mark.parametrize("came_to", [settled(), accepted(), refused(), not_done(), unknown()])
async def test_a_repeat_of_what_was_recorded_is_answered_and_not_called_a_refused_write(
    either: Ledger, came_to: Outcome
) -> None:
    lease = await granted(either)
    first = await either.record(lease, came_to)
    assert await either.record(lease, came_to) == first
    assert len(await either.audit("ef1-1")) == 2


async def test_a_repeat_is_told_from_another_write_of_the_same_lease(
    either: Ledger, clock: Clock
) -> None:
    lease = await granted(either)
    await moved(either.record(lease, unknown()))
    stands = await moved(either.converge("ef1-1", 2, verdict(State.SETTLED), "reconcile"))
    assert await either.record(lease, unknown()) == Moved(stands)
    assert await either.record(lease, settled("fact-2")) == Stale(stands)
    assert [event.move for event in await either.audit("ef1-1")][2:] == ["find", "refused_write"]
