from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from ascertain.contracts.census import CensusReport, Discord, Discrepancy
from ascertain.contracts.effect import Evidence, State
from ascertain.contracts.outcome import NotDone
from ascertain.errors import BrokenChain
from ascertain.ledger import migration
from ascertain.ledger.audit import verify_chain
from ascertain.ledger.postgres import PostgresLedger, open_ledger
from ascertain.ports import KeptCensus, Standing
from ascertain.reading import OPEN
from starter.postgres import EmbeddedPostgres
from tests.ledger.conftest import Clock
from tests.ledger.steps import (
    LEASE,
    effect,
    granted,
    in_state,
    moved,
    not_done,
    receipt,
    settled,
    unknown,
    verdict,
)

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


async def test_a_ledger_tells_itself_from_its_copy_and_from_one_that_was_made_anew(
    postgres: EmbeddedPostgres, template: str
) -> None:
    names = ("origin", "origin_copy", "origin_anew")
    one, copy = [await postgres.create_database(name, template=template) for name in names[:2]]
    anew = await postgres.create_database(names[2])
    await migration.migrate(anew)
    told: list[str] = []
    for url in (one, copy, anew, one):
        ledger = await open_ledger(url, connections=1)
        told.append(await ledger.upkeep.origin())
        await ledger.aclose()
    for name in names:
        await postgres.drop_database(name)
    assert len(set(told)) == 3
    assert told[0] == told[3]


async def test_where_effects_stand_is_told_of_those_that_were_claimed(
    ledger: PostgresLedger,
) -> None:
    lease = await granted(ledger, "a")
    found = await ledger.upkeep.standing([lease.effect_id, "ef1-never"])
    assert found == {lease.effect_id: Standing("toy.fact", State.IN_FLIGHT)}


async def test_what_waits_for_a_person_is_told_by_its_cause_the_most_first(
    ledger: PostgresLedger, clock: Clock
) -> None:
    for name, error_class in (("a", "several"), ("b", "no_lookup"), ("c", "no_lookup")):
        row = await in_state(ledger, State.UNKNOWN, name)
        last = Evidence(source="lookup", rule=error_class, detail=f"words about {name} alone")
        stopped = verdict(State.QUARANTINED, error_class=error_class, evidence=last)
        await moved(ledger.converge(row.effect_id, row.version, stopped, "reconciler"))
        await clock.advance(timedelta(minutes=1))
    await in_state(ledger, State.UNKNOWN, "d")
    many, one = await ledger.upkeep.quarantined("p")
    assert (many.error_class, many.count, many.examples) == ("no_lookup", 2, ("task-b", "task-c"))
    assert many.age >= timedelta(minutes=2)
    assert (one.error_class, one.count, one.answer) == ("several", 1, "several")
    assert await ledger.upkeep.quarantined("elsewhere") == []
    (chosen,) = await ledger.upkeep.quarantined(None, ["task-c", "task-d"])
    assert chosen.examples == ("task-c",)


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


async def test_what_is_open_is_counted_apart_by_kind_and_what_may_be_done_again_when_asked_for(
    ledger: PostgresLedger,
) -> None:
    await granted(ledger, "a")
    lease = await granted(ledger, "b", effect=effect("b", kind="toy.other"))
    await moved(ledger.record(lease, not_done()))
    assert [tally.kind for tally in await ledger.upkeep.tallies()] == ["toy.fact"]
    told = await ledger.upkeep.tallies(OPEN)
    assert {(tally.kind, tally.state) for tally in told} == {
        ("toy.fact", State.IN_FLIGHT),
        ("toy.other", State.CLEAR),
    }


async def test_the_last_census_of_each_kind_is_kept_without_its_list(
    ledger: PostgresLedger, clock: Clock
) -> None:
    found = Discrepancy(discord=Discord.DUPLICATE, effect_id="ef1-a")
    report = CensusReport(kind="toy.fact", count={Discord.DUPLICATE: 1}, discrepancies=(found,))
    await ledger.upkeep.keep_census(CensusReport(kind="toy.fact", listed=7))
    await clock.advance(timedelta(minutes=1))
    await ledger.upkeep.keep_census(report)
    await clock.advance(timedelta(minutes=2))
    (kept,) = await ledger.upkeep.censuses()
    assert kept == KeptCensus(report.model_copy(update={"discrepancies": ()}), timedelta(minutes=2))


async def test_the_times_of_a_kind_are_read_from_its_trails(
    ledger: PostgresLedger, clock: Clock
) -> None:
    for name, seconds in (("a", 1), ("b", 3)):
        lease = await granted(ledger, name)
        await clock.advance(timedelta(seconds=seconds))
        await moved(ledger.record(lease, settled(f"fact-{name}")))
    lease = await granted(ledger, "lost")
    row = await moved(ledger.record(lease, unknown()))
    await clock.advance(timedelta(seconds=20))
    found = verdict(State.SETTLED, receipt=receipt("fact-c", happened_at=clock.now - LEASE))
    await moved(ledger.converge(row.effect_id, row.version, found, "reconcile"))
    (told,) = await ledger.upkeep.measured(100)
    assert (told.kind, told.effects, told.unsent, told.denied) == ("toy.fact", 3, 0, None)
    assert (told.attempts.count, told.attempts.half) == (3, timedelta(seconds=1))
    assert told.attempts.longest == told.attempts.p999 == timedelta(seconds=3)
    assert (told.lateness.count, told.lateness.longest) == (1, LEASE)
    assert (told.stood.count, told.stood.longest) == (4, timedelta(seconds=20))
    (one,) = await ledger.upkeep.measured(1)
    assert one.effects == 1
    assert (await ledger.upkeep.archive(timedelta(0))).archived == 3
    assert await ledger.upkeep.measured(100) == [told], "the trails of what is archived stay"


async def test_a_permit_that_ran_out_unused_and_a_fact_that_was_denied_are_told(
    ledger: PostgresLedger, clock: Clock
) -> None:
    lost = Evidence(source="phase", rule="permit_lost", detail="it ran out")
    unsent = NotDone(error_class="permit_lost", evidence=lost)
    await moved(ledger.record(await granted(ledger, "a"), unsent))
    row = await in_state(ledger, State.CLEAR, "b")
    await clock.advance(timedelta(seconds=90))
    late = verdict(State.SETTLED, receipt=receipt("fact-b"))
    await moved(ledger.converge(row.effect_id, row.version, late, "reconcile"))
    (told,) = await ledger.upkeep.measured(100)
    assert (told.unsent, told.denied) == (1, timedelta(seconds=90))


async def test_nothing_is_told_of_a_ledger_that_is_empty(ledger: PostgresLedger) -> None:
    assert await ledger.upkeep.measured(100) == []


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
