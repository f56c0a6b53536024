"""What the ledger costs: statements, commits on disk, and what a statement reads."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import asyncpg
import pytest

from ascertain.ledger.postgres import PostgresLedger, open_ledger
from ascertain.ledger.statement import statement, statements
from starter.postgres import EmbeddedPostgres
from tests.ledger.steps import SEEN, accepted, granted, moved, not_done, settled, unknown

MANY = 20
UNRESOLVED = 200
FILLED = """
set session_replication_role = replica;
insert into ascertain.effects (
    effect_id, task_id, step, revision, kind, partition, state, state_since, version, attempt,
    lease_owner, lease_version, lease_until, first_sent_at, fingerprint, frozen, receipt, external_id,
    evidence, evidence_version, taken_by, created_at)
select
    'ef1-' || n, 'task-' || n / 2, 'step-' || n % 2, 0, 'toy.fact', 'p' || n % 7,
    case when n % 1000 = 0 then 'UNKNOWN' else 'SETTLED' end, now() - n * interval '1 second', 2, 1,
    'w', 1, now(), now(), 'f', '{}', jsonb_build_object('external_id', 'fact-' || n), 'fact-' || n,
    '{"source": "rule", "rule": "test"}', 2, null, now()
from generate_series(1, 200000) as n;
insert into ascertain.audit_events (
    effect_id, seq, move, actor, version, lease_version, attempt, evidence, at, hash)
select 'ef1-' || n / 2, 1 + n % 2, 'claim', 'w', 1, 1, 1, '{}', now(), sha256('')
from generate_series(1, 400000) as n;
set session_replication_role = origin;
analyze ascertain.effects, ascertain.audit_events;
"""


@pytest.fixture
async def single(database: str) -> AsyncIterator[PostgresLedger]:
    """A ledger of one connection, so that what this connection did can be counted."""
    opened = await open_ledger(database, connections=1)
    yield opened
    await opened.aclose()


async def flushes(ledger: PostgresLedger) -> int:
    """How often statements of clients waited for their commit to reach the disk."""
    await ledger._session.fetch("select pg_stat_force_next_flush()")
    (found,) = await ledger._session.fetch(
        "select sum(fsyncs)::bigint as count from pg_stat_io "
        "where backend_type = 'client backend' and object = 'wal'"
    )
    return found["count"]


async def test_a_claim_and_its_record_are_two_statements(
    single: PostgresLedger, postgres: EmbeddedPostgres, database: str
) -> None:
    await moved(single.record(await granted(single), settled()))
    name = database.rpartition("/")[2]
    admin = await asyncpg.connect(database)
    await admin.execute("alter system set log_statement = 'all'")
    await admin.execute("select pg_reload_conf()")
    try:
        await granted(single, "2")  # the connection reads the new setting between two statements
        before = logged(postgres, name)
        lease = await granted(single, "3")
        await moved(single.record(lease, settled("fact-3")))
        assert logged(postgres, name) - before == 2
    finally:
        await admin.execute("alter system reset log_statement")
        await admin.execute("select pg_reload_conf()")
        await admin.close()


def logged(postgres: EmbeddedPostgres, database: str) -> int:
    text = postgres.log.read_text()
    return text.count("LOG:  execute ") + text.count("LOG:  statement: ")


async def test_a_claim_is_on_disk_before_it_is_answered(single: PostgresLedger) -> None:
    await granted(single, "warm")
    before = await flushes(single)
    for number in range(MANY):
        await granted(single, str(number))
    assert await flushes(single) - before >= MANY / 2


async def test_what_a_claim_comes_to_waits_for_no_disk(single: PostgresLedger) -> None:
    outcomes = [settled("fact"), not_done(), unknown()]
    for turn, came_to in enumerate(outcomes):
        leases = [await granted(single, f"{turn}-{number}") for number in range(MANY)]
        before = await flushes(single)
        for number, lease in enumerate(leases):
            told = settled(f"fact-{number}") if turn == 0 else came_to
            await moved(single.record(lease, told))
            await single.note(lease.effect_id, "reconcile", SEEN)
        assert await flushes(single) == before


async def test_what_the_outside_accepted_is_on_disk_before_it_is_answered(
    single: PostgresLedger,
) -> None:
    leases = [await granted(single, str(number)) for number in range(MANY)]
    before = await flushes(single)
    for lease in leases:
        await moved(single.record(lease, accepted()))
    assert await flushes(single) - before >= MANY / 2


async def test_a_refused_write_is_on_disk_before_it_is_answered(single: PostgresLedger) -> None:
    lease = await granted(single)
    await moved(single.record(lease, not_done()))
    before = await flushes(single)
    for number in range(MANY):
        await single.record(lease, settled(f"fact-{number}"))
    assert await flushes(single) - before >= MANY / 2


async def test_a_server_that_commits_asynchronously_by_default_is_overruled(
    database: str,
) -> None:
    admin = await asyncpg.connect(database)
    name = database.rpartition("/")[2]
    await admin.execute(f"alter database {name} set synchronous_commit = 'off'")
    await admin.close()
    ledger = await open_ledger(database, connections=1)
    try:
        await granted(ledger, "warm")
        before = await flushes(ledger)
        for number in range(MANY):
            await granted(ledger, str(number))
        assert await flushes(ledger) - before >= MANY / 2
    finally:
        await ledger.aclose()


async def test_every_hot_statement_reads_by_index_and_none_reads_what_is_closed(
    database: str,
) -> None:
    connection = await asyncpg.connect(database)
    try:
        await connection.execute(FILLED)
        await connection.execute("set plan_cache_mode = force_generic_plan")
        plans = {name: await plan(connection, name) for name in statements() if hot(name)}
        pages = await pages_read(connection, "tallies", [["UNKNOWN", "IN_FLIGHT"]])
    finally:
        await connection.close()
    for name, text in plans.items():
        assert "Seq Scan on effects" not in text, (name, text)
        assert "Seq Scan on audit_events" not in text, (name, text)
    assert "effects_open" in plans["open_effects"]
    assert "effects_open" in plans["quiet_effects"]
    assert "effects_open" in plans["tallies"]
    assert "effects_open" in plans["quarantined"]
    assert pages < 2 * UNRESOLVED, "metrics cost what is unresolved"
    assert "effects_one_effect_per_fact" in plans["settled_page"]
    assert "effects_one_live_per_step" in plans["task_effects"]
    assert "effects_superseded" in plans["task_effects"]
    assert "effects_one_effect_per_fact" in plans["proved_by"]
    assert {"claim", "record", "renew", "converge", "inspect", "audit", "note"} <= set(plans)


def hot(name: str) -> bool:
    cold = {
        *("all_effects", "effects_page", "gates", "partitions", "commit_durably", "grant_roles"),
        *("censuses", "measured"),
    }
    return name not in cold and "migration" not in name


async def plan(connection: asyncpg.Connection, name: str) -> str:
    """The plan that serves whatever is asked."""
    count = max((int(number) for number in re.findall(r"\$(\d+)", statement(name))), default=0)
    nulls = f"({', '.join(['null'] * count)})" if count else ""
    await connection.execute(f"prepare {name} as {statement(name)}")
    return "\n".join(
        record[0] for record in await connection.fetch(f"explain execute {name} {nulls}")
    )


async def pages_read(connection: asyncpg.Connection, name: str, values: list[object]) -> int:
    """How many pages of the database a statement looks at."""
    text = f"explain (analyze, buffers, format json) {statement(name)}"
    (told,) = json.loads(await connection.fetchval(text, *values))
    return told["Plan"]["Shared Hit Blocks"] + told["Plan"]["Shared Read Blocks"]
