from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from ascertain.contracts.effect import State
from ascertain.errors import BrokenChain
from ascertain.ledger.audit import verify_chain
from ascertain.ledger.postgres import PostgresLedger
from ascertain.ports import Standing
from tests.ledger.conftest import Clock
from tests.ledger.steps import granted, moved, settled, unknown

NOW = timedelta(0)


async def test_the_settled_effects_of_a_kind_are_told_with_what_proves_them(
    ledger: PostgresLedger,
) -> None:
    for name in ("a", "b"):
        await moved(ledger.record(await granted(ledger, name), settled(f"fact-{name}")))
    await granted(ledger, "c")
    told = [page async for page in ledger.upkeep.settled("toy.fact", None, NOW)]
    assert [sorted(page.values()) for page in told] == [["fact-a", "fact-b"]]
    young = [page async for page in ledger.upkeep.settled("toy.fact", None, timedelta(hours=1))]
    assert young == [{}]


async def test_where_effects_stand_is_told_of_those_that_were_claimed(
    ledger: PostgresLedger,
) -> None:
    lease = await granted(ledger, "a")
    found = await ledger.upkeep.standing([lease.effect_id, "ef1-never"])
    assert found == {lease.effect_id: Standing("toy.fact", State.IN_FLIGHT)}


async def test_what_is_unresolved_is_counted_with_the_age_of_the_oldest(
    ledger: PostgresLedger, clock: Clock
) -> None:
    for name in ("a", "b", "c"):
        lease = await granted(ledger, name)
        await moved(ledger.record(lease, settled("fact") if name == "c" else unknown()))
        await clock.advance(timedelta(minutes=1))
    (tally,) = await ledger.upkeep.tallies()
    assert (tally.state, tally.count) == (State.UNKNOWN, 2)
    assert tally.stuck_for == timedelta(minutes=3)


async def test_a_forged_trail_is_found_among_all(ledger: PostgresLedger, timeless: str) -> None:
    for name in ("a", "b"):
        await granted(ledger, name)
    connection = await asyncpg.connect(timeless)
    await connection.execute("set session_replication_role = replica")
    await connection.execute(
        "update ascertain.audit_events set actor = 'nobody' where effect_id = 'ef1-b'"
    )
    await connection.close()
    found = {row.effect_id: (trail, row) async for row, trail in ledger.upkeep.trails()}
    verify_chain(*found["ef1-a"])
    with pytest.raises(BrokenChain, match="ef1-b"):
        verify_chain(*found["ef1-b"])
