"""After a restore: what the ledger may have forgotten is asked for before anything is sent."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from ascertain.contracts.claim import Granted, Refused, Settled, Stale, Unresolved
from ascertain.contracts.effect import State
from ascertain.contracts.epoch import CLOCKS, Epoch, EpochRequest
from ascertain.contracts.gate import GateChange
from ascertain.errors import CommandRefused, InputError
from ascertain.ledger.postgres import PostgresLedger
from ascertain.ports import Ledger
from tests.ledger.conftest import T0, Clock
from tests.ledger.steps import (
    effect,
    granted,
    moved,
    not_done,
    refused,
    request,
    settled,
    standing,
    unknown,
    verdict,
)

HOUR = timedelta(hours=1)
REFUSED = asyncpg.IntegrityConstraintViolationError


async def restored(ledger: Ledger, **changes: Any) -> Epoch:
    fields: dict[str, Any] = {
        "since": T0 - HOUR,
        "by": "ada",
        "reason": "the disk broke",
        "request_id": "epoch-1",
    }
    return await ledger.raise_epoch(EpochRequest(**{**fields, **changes}))


def begun(at: datetime | None, name: str = "1", **changes: Any) -> Any:
    return request(name, effect=effect(name, begun_at=at), **changes)


async def test_what_was_begun_before_the_restore_is_not_sent_but_begins_in_doubt(
    either: Ledger, clock: Clock
) -> None:
    epoch = await restored(either)
    for name, at in (("1", T0 - 2 * HOUR), ("2", epoch.raised_at), ("3", None)):
        answer = await either.claim(begun(at, name))
        assert isinstance(answer, Unresolved), name
        row = answer.row
        assert (row.state, row.attempt, row.evidence.rule) == (State.IN_FLIGHT, 1, "restored")
        assert row.lease_until <= clock.now
        fenced = await moved(either.fence(row.effect_id, row.version, "reconcile"))
        assert fenced.state is State.UNKNOWN
        assert isinstance(await either.claim(begun(at, name)), Unresolved)


async def test_what_no_worker_began_is_never_said_to_have_been_left_by_one(
    either: Ledger, clock: Clock
) -> None:
    epoch = await restored(either)
    row = (await either.claim(begun(T0, "1"))).row
    fenced = [await moved(either.fence(row.effect_id, row.version, "reconcile"))]
    await either.claim(begun(T0, "2"))
    fenced.append((await either.claim(begun(T0, "2"))).row)
    for doubted in fenced:
        assert doubted.state is State.UNKNOWN
        assert (doubted.error_class, doubted.evidence.rule) == ("restored", "restored")
        trail = await either.audit(doubted.effect_id)
        assert [event.evidence for event in trail] == [row.evidence, row.evidence]
        assert "the ledger was restored" in row.evidence.detail
    young = await granted(either, "3", effect=effect("3", begun_at=epoch.until))
    await clock.advance(HOUR)
    left = await moved(either.fence("ef1-3", 1, "reconcile"))
    assert (left.error_class, left.evidence.rule) == ("fenced", "fence")
    assert left.lease_owner == young.owner


async def test_what_is_begun_after_the_restore_is_done_as_ever(
    either: Ledger, clock: Clock
) -> None:
    epoch = await restored(either)
    assert epoch.until == clock.now + CLOCKS
    assert isinstance(await either.claim(begun(epoch.until)), Granted)


async def test_once_its_absence_is_proven_it_is_done(either: Ledger, clock: Clock) -> None:
    await restored(either)
    answer = await either.claim(begun(T0))
    assert isinstance(answer, Unresolved)
    await clock.advance(HOUR)
    fenced = await moved(either.fence("ef1-1", answer.row.version, "reconcile"))
    await moved(either.converge("ef1-1", fenced.version, verdict(State.CLEAR), "reconcile"))
    again = await either.claim(begun(T0))
    assert isinstance(again, Granted)
    assert again.lease.attempt == 2


async def test_what_may_have_been_forgotten_takes_nothing_of_the_budget(either: Ledger) -> None:
    await restored(either)
    asked = begun(T0 - 2 * HOUR, budget=1)
    row = (await either.claim(asked)).row
    doubted = await moved(either.fence(row.effect_id, row.version, "reconcile"))
    await moved(either.converge(row.effect_id, doubted.version, verdict(State.CLEAR), "r"))
    answer = await either.claim(asked)
    assert isinstance(answer, Granted)
    assert (answer.row.attempt, answer.row.budget_from) == (2, 1)


async def test_what_was_proven_absent_before_the_restore_is_in_doubt_again(
    either: Ledger, clock: Clock
) -> None:
    await moved(either.record(await granted(either), not_done()))
    await clock.advance(HOUR)
    await restored(either)
    answer = await either.claim(begun(clock.now + HOUR))
    assert isinstance(answer, Unresolved)
    row = answer.row
    assert (row.state, row.attempt, row.lease_version) == (State.IN_FLIGHT, 2, 2)


async def test_what_stands_in_the_ledger_stands(either: Ledger, clock: Clock) -> None:
    await moved(either.record(await granted(either, "1"), settled()))
    await moved(either.record(await granted(either, "2"), refused()))
    await clock.advance(HOUR)
    await restored(either)
    assert isinstance(await either.claim(begun(None, "1")), Settled)
    assert isinstance(await either.claim(begun(None, "2")), Refused)


async def test_asking_goes_on_behind_a_closed_gate(either: Ledger) -> None:
    change = GateChange(partition="*", paused=True, by="ada", reason="restore", request_id="r")
    await either.set_gate(change)
    await restored(either)
    assert isinstance(await either.claim(begun(T0)), Unresolved)


async def test_a_key_protects_from_its_first_possible_send_on(either: Ledger, clock: Clock) -> None:
    """What the backup does not know was sent after it at the earliest, and after the task was begun."""
    await restored(either)
    two_hours = 2 * HOUR
    for name, at, first in (("1", T0 - 5 * HOUR, T0 - HOUR), ("2", T0 - HOUR / 2, T0 - HOUR / 2)):
        answer = await either.claim(begun(at, name, resend_for=two_hours))
        assert isinstance(answer, Unresolved)
        assert (answer.row.first_sent_at, answer.row.resend_until) == (first, first + two_hours)


async def test_no_empty_lookup_proves_anything_as_if_nothing_had_been_sent_since_the_backup(
    either: Ledger, clock: Clock
) -> None:
    await moved(either.record(await granted(either, "1"), unknown()))
    await clock.advance(HOUR)
    epoch = await restored(either)
    case = await either.inspect("ef1-1")
    assert case is not None
    assert case.row.lease_until == epoch.raised_at
    await clock.advance(HOUR)
    await granted(either, "2", effect=effect("2", begun_at=clock.now))
    case = await either.inspect("ef1-2")
    assert case is not None
    assert case.row.lease_until > clock.now


async def test_a_task_that_is_cancelled_after_the_restore_does_not_deny_what_it_may_have_done(
    either: Ledger, clock: Clock
) -> None:
    await moved(either.record(await granted(either, "2"), not_done()))
    await clock.advance(HOUR)
    await restored(either)
    lost = effect("1", begun_at=T0)
    assert await either.withdraw(lost, "f" * 64, "worker") == Stale(None)
    stale = await either.withdraw(effect("2", begun_at=T0), "f" * 64, "worker")
    assert isinstance(stale, Stale)
    assert (await standing(either, "2")).state is State.CLEAR
    young = effect("3", begun_at=clock.now + HOUR)
    assert (await moved(either.withdraw(young, "f" * 64, "worker"))).state is State.ABANDONED


async def test_a_chunk_that_may_have_been_forgotten_is_handed_over_in_doubt(
    either: Ledger, clock: Clock
) -> None:
    epoch = await restored(either)
    old, young = begun(T0, "1", owner="w"), begun(epoch.until, "2", owner="w")
    told = await either.claim_many([old, young])
    assert [type(answer) for answer in told] == [type(None), Granted]
    answer = await either.claim(old)
    assert isinstance(answer, Unresolved)
    assert answer.row.state is State.UNKNOWN


async def test_a_repeated_request_raises_no_second_epoch(either: Ledger, clock: Clock) -> None:
    first = await restored(either)
    await clock.advance(HOUR)
    again = await restored(either, since=T0)
    assert again == first.model_copy(update={"already_applied": True})
    assert isinstance(await either.claim(begun(clock.now)), Granted)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"until": T0 - timedelta.resolution}, "until, .*, lies in the past"),
        ({"since": T0 + timedelta.resolution}, "since, .*, lies in the future"),
    ],
)
async def test_a_restore_with_a_time_on_the_wrong_side_of_now_is_refused_and_raises_nothing(
    either: Ledger, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        await restored(either, **wrong)
    assert isinstance(await either.claim(begun(T0)), Granted)
    assert not (await restored(either)).already_applied


async def test_a_restore_is_repeated_however_long_its_time_is_over(
    either: Ledger, clock: Clock
) -> None:
    first = await restored(either, until=T0 + HOUR)
    await clock.advance(2 * HOUR)
    again = await restored(either, until=T0 + HOUR)
    assert again == first.model_copy(update={"already_applied": True})


@pytest.mark.parametrize("more", [{"since": T0 - 2 * HOUR}, {"until": T0 + 2 * HOUR}])
async def test_a_restore_that_reaches_further_is_refused_under_a_used_request_id(
    either: Ledger, more: dict[str, Any]
) -> None:
    first = await restored(either, until=T0 + HOUR)
    with pytest.raises(CommandRefused, match="request id epoch-1 was used for the backup of "):
        await restored(either, **{"until": T0 + HOUR, **more})
    again = await restored(either)
    assert again == first.model_copy(update={"already_applied": True})


async def test_it_may_be_told_to_hold_for_what_is_submitted_again_later(
    either: Ledger, clock: Clock
) -> None:
    epoch = await restored(either, until=T0 + 5 * HOUR)
    assert epoch.until == T0 + 5 * HOUR
    await clock.advance(4 * HOUR)
    assert isinstance(await either.claim(begun(clock.now)), Unresolved)


@pytest.mark.parametrize(
    "change", ["update ascertain.epochs set until = since", "delete from ascertain.epochs"]
)
async def test_nobody_takes_an_epoch_back(
    ledger: PostgresLedger, admin: asyncpg.Connection, change: str
) -> None:
    await restored(ledger)
    with pytest.raises(REFUSED, match="an epoch is remembered for ever"):
        await admin.execute(change)
