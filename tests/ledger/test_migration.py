"""The schema goes forward only, by files that nobody edits, whoever migrates and how many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import asyncpg
import pytest

from ascertain.errors import WrongSchema
from ascertain.ledger import migration
from ascertain.ledger.migration import Kind, Migration, check, migrate, migrations
from ascertain.ledger.postgres import open_ledger
from starter.postgres import EmbeddedPostgres
from tests.ledger.schema import describe
from tests.ledger.steps import granted, moved, settled

NUMBERS = count(1)
ALL = [known.name for known in migrations()]


@pytest.fixture
async def empty(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """The address of a database without the schema."""
    name = f"empty_{next(NUMBERS)}"
    yield await postgres.create_database(name)
    await postgres.drop_database(name)


def made(name: str) -> Migration:
    return Migration(name, Kind(name.split("_")[1]), "select 1")


async def test_migrating_twice_applies_everything_once(empty: str) -> None:
    assert await migrate(empty) == ALL
    assert await migrate(empty) == []
    await check(empty)


async def test_two_migrators_at_once_are_safe(empty: str) -> None:
    done = await asyncio.gather(*(migrate(empty) for _ in range(4)))
    assert sorted(done) == [[], [], [], ALL]


async def test_a_ledger_without_a_schema_says_what_to_run(empty: str) -> None:
    with pytest.raises(WrongSchema, match="ascertain migrate"):
        await check(empty)
    with pytest.raises(WrongSchema, match="ascertain migrate"):
        await open_ledger(empty)


async def test_an_edited_migration_is_refused(database: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute("update ascertain.migrations set sha256 = 'of another text'")
    await connection.close()
    for refused in (check(database), migrate(database), open_ledger(database)):
        with pytest.raises(WrongSchema, match="is not the file that was applied"):
            await refused


@pytest.mark.parametrize(
    "fails",
    [
        "select 1/0",
        "insert into ascertain.migrations (name, sha256) values ('0002_pre_broken.sql', 'x')",
    ],
    ids=["while it is applied", "while it is recorded"],
)
async def test_a_failed_migration_leaves_nothing_behind(
    empty: str, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    text = f"create table ascertain.x (); {fails}"
    broken = Migration("0002_pre_broken.sql", Kind.PRE, text)
    known = (*migrations(), broken)
    monkeypatch.setattr(migration, "migrations", lambda *_: known)
    with pytest.raises((asyncpg.DivisionByZeroError, asyncpg.UniqueViolationError)):
        await migrate(empty)
    connection = await asyncpg.connect(empty)
    assert await connection.fetchval("select to_regclass('ascertain.x')") is None
    assert await connection.fetchval("select count(*) from ascertain.migrations") == len(ALL)
    await connection.close()


def test_a_schema_that_is_too_old_is_refused_and_what_a_roll_out_allows_is_not() -> None:
    known = [made("0001_pre_a.sql"), made("0002_post_b.sql")]
    digest = known[0].sha256
    migration._check(known, {"0001_pre_a.sql": digest})  # post waits for the end of the roll-out
    migration._check(known, {"0001_pre_a.sql": digest, "0003_pre_next_release.sql": "x"})
    with pytest.raises(WrongSchema, match=r"older than this release .0001_pre_a\.sql"):
        migration._check(known, {})
    with pytest.raises(WrongSchema, match="newer than this release"):
        migration._check(known, {"0001_pre_a.sql": digest, "0003_post_next.sql": "x"})


def test_pre_files_are_applied_alone_but_never_past_a_post_file_that_waits() -> None:
    known = [made("0001_pre_a.sql"), made("0002_post_b.sql"), made("0003_pre_c.sql")]
    digest = known[0].sha256
    assert migration._pending(known[:2], {}, {Kind.PRE}) == known[:1]
    assert migration._pending(known, {}, set(Kind)) == known
    with pytest.raises(
        WrongSchema, match=r"0002_post_b\.sql must be applied before 0003_pre_c\.sql"
    ):
        migration._pending(known, {"0001_pre_a.sql": digest}, {Kind.PRE})


async def test_the_migrated_schema_is_the_one_that_was_reviewed(database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        reviewed = Path(__file__).with_name("schema.txt").read_text()
        assert await describe(connection) == reviewed, "see tests/ledger/schema.py to write it anew"
    finally:
        await connection.close()


async def test_the_previous_release_works_on_a_schema_with_one_more_column(database: str) -> None:
    ledger = await open_ledger(database)
    try:
        await granted(ledger, "1")
        connection = await asyncpg.connect(database)
        await connection.execute("alter table ascertain.effects add column later text")
        await connection.close()
        lease = await granted(ledger, "2")
        await moved(ledger.record(lease, settled("fact-2")))
    finally:
        await ledger.aclose()
