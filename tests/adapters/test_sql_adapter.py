"""A change of rows and its record in one transaction of a real database."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from ascertain.adapters.sql import create
from ascertain.adapters.target import STATEMENTS, hosts_of
from ascertain.contracts import finding, outcome
from ascertain.errors import InvalidSettings, InvalidTask, LookupDown, PermitLost
from ascertain.testing.fault import DropReply, DropRequest
from ascertain.testing.proxy import FaultProxy
from starter.process import free_port
from tests.adapters.calls import WITHIN, GivenPermit, GivenSecrets, call, effect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ascertain.adapters.sql import SqlAdapter
    from ascertain.contracts.effect import Effect
    from starter.postgres import EmbeddedPostgres

KIND = "account.post"
POST = {
    "sql": "update accounts set balance = balance + $2 where id = $1 returning balance",
    "parameters": ["{input.account}", "{input.delta}"],
    "rows": 1,
}
NOTE = {
    "sql": "insert into postings (reference, day, detail) values ($1, $2, $3)",
    "parameters": ["{effect_id}", "{input.day?}", {"text": "{input.text?}"}],
}
SCHEMA = """
    create table accounts (id text primary key, balance numeric(12, 2) check (balance >= 0));
    insert into accounts values ('ann', 10), ('bob', 10);
    create table postings (reference text unique deferrable initially deferred, day date, detail jsonb);
"""
INPUT = {"account": "ann", "delta": "2.50"}
_numbers = count(1)


class Bank:
    """The target database and its own books."""

    def __init__(self, url: str, books: asyncpg.Connection) -> None:
        self.url = url
        self.books = books
        self.port = int(url.rsplit(":", 1)[1].split("/", maxsplit=1)[0])

    def through(self, port: int) -> str:
        return self.url.replace(f":{self.port}/", f":{port}/")

    async def balance(self, account: str = "ann") -> str:
        return str(await self.books.fetchval("select balance from accounts where id = $1", account))


@asynccontextmanager
async def bank_in(postgres: EmbeddedPostgres) -> AsyncIterator[Bank]:
    name = f"bank_{next(_numbers)}"
    url = await postgres.create_database(name)
    books = await asyncpg.connect(url)
    await books.execute(SCHEMA)
    await books.execute(STATEMENTS["create_table"])
    yield Bank(url, books)
    await books.close()
    await postgres.drop_database(name)


@pytest.fixture
async def bank(postgres: EmbeddedPostgres) -> AsyncIterator[Bank]:
    async with bank_in(postgres) as bank:
        yield bank


@asynccontextmanager
async def opened(
    url: str, *statements: dict[str, Any], **options: Any
) -> AsyncIterator[SqlAdapter]:
    given = {"url": "secret:DB", "statements": list(statements or (POST,)), **options}
    adapter = create(KIND, given, GivenSecrets({"DB": url}))
    try:
        yield adapter
    finally:
        await adapter.aclose()


def made(**content: Any) -> Effect:
    return effect(KIND, {**INPUT, **content})


async def perform(adapter: SqlAdapter, what: Effect) -> outcome.Outcome:
    return await adapter.perform(call(what, adapter.prepare(what)), GivenPermit())


async def lookup(adapter: SqlAdapter, what: Effect) -> finding.Finding:
    return await adapter.lookup(call(what, adapter.prepare(what)), within=WITHIN)


async def test_a_change_and_its_record_are_committed_together(bank: Bank):
    async with opened(bank.url, POST, NOTE) as adapter:
        what = made(day="2026-02-28", text="héllo")
        assert isinstance(await lookup(adapter, what), finding.Absent)
        came_to = await perform(adapter, what)
        found = await lookup(adapter, what)
    assert isinstance(came_to, outcome.Settled)
    assert isinstance(found, finding.Found)
    assert found.receipt.happened_at is not None
    assert found.receipt.body == came_to.receipt.body
    assert came_to.receipt.body == {"rows": [1, 1], "returned": [{"balance": "12.50"}]}
    assert await bank.balance() == "12.50"
    posted = await bank.books.fetchrow("select day::text, detail->>'text' as text from postings")
    assert tuple(posted) == ("2026-02-28", "héllo")


async def test_the_same_effect_changes_nothing_twice_whoever_tries(bank: Bank):
    async with opened(bank.url) as adapter:
        came_to = await asyncio.gather(*(perform(adapter, made()) for _ in range(6)))
    assert sum(isinstance(one, outcome.Settled) for one in came_to) == 1
    assert {one.error_class for one in came_to if isinstance(one, outcome.Unknown)} == {"exists"}
    assert await bank.balance() == "12.50"


async def test_a_record_of_another_change_differs_and_is_not_taken_for_ours(bank: Bank):
    async with opened(bank.url) as adapter:
        await perform(adapter, made(delta=1))
        differs = await lookup(adapter, made(delta=2))
    assert isinstance(differs, finding.Differs)
    assert differs.expected["sha256"] != differs.found["sha256"]


async def test_a_commit_whose_answer_is_lost_is_doubt_and_is_found(bank: Bank):
    async with (
        FaultProxy("127.0.0.1", bank.port, protocol="bytes") as proxy,
        opened(bank.through(proxy.port)) as adapter,
    ):
        proxy.inject(DropReply("reset"), match=rb"COMMIT", times=1)
        came_to = await perform(adapter, made())
        assert isinstance(came_to, outcome.Unknown)
        assert isinstance(await lookup(adapter, made()), finding.Found)
    assert await bank.balance() == "12.50"


@pytest.mark.parametrize("at", [rb"BEGIN", rb"insert into ascertain", rb"update accounts"])
async def test_whatever_breaks_before_the_commit_is_not_done(bank: Bank, at: bytes):
    async with (
        FaultProxy("127.0.0.1", bank.port, protocol="bytes") as proxy,
        opened(bank.through(proxy.port)) as adapter,
    ):
        proxy.inject(DropReply("reset"), match=at, times=1)
        came_to = await perform(adapter, made())
        assert isinstance(came_to, outcome.NotDone)
        assert isinstance(await lookup(adapter, made()), finding.Absent)
    assert await bank.balance() == "10.00"


async def test_a_commit_that_never_arrived_is_doubt_too_and_proved_absent(bank: Bank):
    async with (
        FaultProxy("127.0.0.1", bank.port, protocol="bytes") as proxy,
        opened(bank.through(proxy.port)) as adapter,
    ):
        proxy.inject(DropRequest("reset"), match=rb"COMMIT", times=1)
        assert isinstance(await perform(adapter, made()), outcome.Unknown)
        assert isinstance(await lookup(adapter, made()), finding.Absent)


async def test_a_lost_permit_rolls_back(bank: Bank):
    async with opened(bank.url) as adapter:
        with pytest.raises(PermitLost):
            await adapter.perform(call(made(), adapter.prepare(made())), GivenPermit(lost=True))
        assert isinstance(await lookup(adapter, made()), finding.Absent)
    assert await bank.balance() == "10.00"


@pytest.mark.parametrize(
    ("statements", "content", "error_class"),
    [
        ((POST,), {"delta": -100}, "sql_23514"),
        ((POST,), {"delta": "many"}, "sql_22P02"),
        ((POST,), {"account": "eve"}, "rows"),
        ((NOTE, NOTE), {}, "sql_23505"),
    ],
    ids=["check", "not a number", "no such row", "refused by the commit itself"],
)
async def test_what_the_values_are_to_blame_for_is_refused_and_changes_nothing(
    bank: Bank, statements: Any, content: dict[str, Any], error_class: str
):
    async with opened(bank.url, *statements) as adapter:
        came_to = await perform(adapter, made(**content))
        assert isinstance(came_to, outcome.Refused)
        assert came_to.error_class == error_class
        assert isinstance(await lookup(adapter, made(**content)), finding.Absent)
    assert await bank.balance() == "10.00"


async def test_a_statement_that_the_database_does_not_know_waits_for_whoever_mends_it(bank: Bank):
    async with opened(bank.url, {"sql": "update no_such_table set x = 1"}) as adapter:
        assert isinstance(await perform(adapter, made()), outcome.NotDone)


async def test_two_statements_in_one_text_are_never_run(bank: Bank):
    both = {"sql": "update accounts set balance = 0; commit"}
    async with opened(bank.url, both) as adapter:
        assert isinstance(await perform(adapter, made()), outcome.NotDone)
    assert await bank.balance() == "10.00"


async def test_a_row_that_somebody_holds_ends_the_attempt_undone(bank: Bank):
    holder = await asyncpg.connect(bank.url)
    async with holder.transaction(), opened(bank.url, timeout=0.5) as adapter:
        await holder.execute("update accounts set balance = 1 where id = 'ann'")
        assert isinstance(await perform(adapter, made()), outcome.NotDone)
    await holder.close()


async def test_a_database_that_cannot_be_reached_or_has_no_records_says_nothing(bank: Bank):
    async with opened(bank.through(free_port())) as adapter:
        assert isinstance(await perform(adapter, made()), outcome.NotDone)
        with pytest.raises(LookupDown):
            await lookup(adapter, made())
    await bank.books.execute("drop table ascertain_effects")
    async with opened(bank.url) as adapter:
        assert isinstance(await perform(adapter, made()), outcome.NotDone)
        with pytest.raises(LookupDown, match="UndefinedTable"):
            await lookup(adapter, made())


async def test_a_database_is_connected_to_only_where_its_hosts_lead_to_admitted_addresses(
    bank: Bank, only
):
    named = bank.url.replace("127.0.0.1", "localhost")
    socket = f"postgresql:///bank?host=/var/run&port={bank.port}"
    for url, hosts in (
        (bank.url, ["localhost"]),
        (named, ["db.example"]),
        (named, ["localhost"]),
        (named, ["127.0.0.0/8"]),
        (bank.url.replace(f":{bank.port}/", f":{bank.port},10.1.2.3/"), ["127.0.0.1"]),
        (socket, ["127.0.0.1", "::1"]),
        ("postgresql:///bank", ["localhost", "127.0.0.1", "::1"]),
    ):
        only(*hosts)
        async with opened(url) as adapter:
            came_to = await perform(adapter, made())
            assert isinstance(came_to, outcome.NotDone), (url, hosts)
            assert came_to.error_class == "not_listed", (url, hosts)
            with pytest.raises(LookupDown, match="NotListed"):
                await lookup(adapter, made())
    only("localhost", "127.0.0.0/8", "::1")
    async with opened(named) as adapter:
        assert isinstance(await perform(adapter, made()), outcome.Settled)
    assert await bank.balance() == "12.50"


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://ann:p@db.example/bank", ["db.example"]),
        ("postgresql://ann:p%40@db.example:5433,10.1.2.3/bank", ["db.example", "10.1.2.3"]),
        ("postgresql://[::1]:5433,[fe80::2]/bank", ["::1", "fe80::2"]),
        ("postgresql://%2Fvar%2Frun/bank", ["/var/run"]),
        ("postgresql:///bank?host=/var/run", ["/var/run"]),
        ("postgresql:///bank?host=a.example,b.example:1", ["a.example", "b.example"]),
        ("postgresql:///bank", []),
    ],
)
def test_every_host_that_an_address_names_is_looked_at(url: str, hosts: list[str]):
    assert hosts_of(url) == hosts


async def test_values_are_values_and_never_sql(bank: Bank):
    async with opened(bank.url) as adapter:
        came_to = await perform(adapter, made(account="ann' or '1'='1"))
    assert isinstance(came_to, outcome.Refused)
    assert await bank.balance("bob") == "10.00"


async def test_every_json_value_reaches_its_column(bank: Bank):
    await bank.books.execute(
        "create table everything (i int8, f float8, b bool, t text, j jsonb, at timestamptz, u uuid)"
    )
    insert = {
        "sql": "insert into everything values ($1, $2, $3, $4, $5, $6, $7) returning *",
        "parameters": [f"{{input.{name}?}}" for name in ("i", "f", "b", "t", "j", "at", "u")],
    }
    values = {
        "i": 7,
        "f": 1.5,
        "b": True,
        "t": "x",
        "j": {"a": [1]},
        "at": "2026-01-02T03:04:05Z",
        "u": "3a0b2f6e-8f0f-4c55-9d6e-0d5f6c3c9a11",
    }
    async with opened(bank.url, insert) as adapter:
        came_to = await perform(adapter, effect(KIND, values))
        nothing = await perform(adapter, effect(KIND, {}, task="task-2"))
    assert isinstance(came_to, outcome.Settled)
    assert came_to.receipt.body["returned"] == [{**values, "at": "2026-01-02 03:04:05+00"}]
    assert isinstance(nothing, outcome.Settled)
    assert set(nothing.receipt.body["returned"][0].values()) == {None}


def test_the_page_shows_the_table_of_records_as_it_is():
    page = Path(__file__).parents[2] / "docs" / "how-to" / "sql-adapter.md"
    statement = STATEMENTS["create_table"].split("\n", 1)[1]
    assert f"```sql\n{statement}\n```" in page.read_text()


def test_a_missing_value_makes_no_change():
    adapter = create(KIND, {"url": "secret:DB", "statements": [POST]}, GivenSecrets())
    with pytest.raises(InvalidTask, match=r"input\.delta"):
        adapter.prepare(effect(KIND, {"account": "ann"}))


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "postgresql://u:p@h/d"},
        {"statements": []},
        {"statements": [{"sql": "commit"}]},
        {"statements": [{"sql": "drop table accounts"}]},
        {"statements": [{**POST, "parameters": ["{job_id}"]}]},
    ],
)
def test_a_deployment_that_cannot_work_is_refused_when_it_is_read(changes: dict[str, Any]):
    with pytest.raises(InvalidSettings):
        create(KIND, {"url": "secret:DB", "statements": [POST], **changes}, GivenSecrets())
