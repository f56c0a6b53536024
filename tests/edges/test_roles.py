"""Each role can do its work, and nothing else."""

from __future__ import annotations

import os
from datetime import timedelta

import asyncpg
import pytest

from ascertain import inbox, outbox
from ascertain.contracts.effect import State
from ascertain.contracts.gate import GateChange
from ascertain.errors import InvalidSettings
from ascertain.ledger.delivery import DeliveryBook
from ascertain.ledger.migration import NEEDED, Schema, grant_roles, migrate
from ascertain.ledger.postgres import open_ledger
from ascertain.ports import EffectFilter
from ascertain.service.queue import Queue
from starter.relay import Relay
from tests.cli.conftest import Cli
from tests.ledger.steps import granted, moved, settled

ROLES = ("worker", "operator", "reader", "service", "relay")
FORBIDDEN = (
    "delete from ascertain.effects",
    "insert into ascertain.archived_effects select * from ascertain.archived_effects",
    "truncate ascertain.audit_events",
    "update ascertain.audit_events set actor = 'x'",
    "alter table ascertain.effects disable trigger all",
    "drop table ascertain.gates",
    "create table ascertain.mine ()",
    "delete from ascertain.migrations",
    "insert into ascertain.migrations (name, sha256) values ('x', 'x')",
    "set session_replication_role = replica",
)
WRITES = {
    "effects": "update ascertain.effects set lease_owner = 'x' where false",
    "audit": "insert into ascertain.audit_events select * from ascertain.audit_events where false",
    "gates": "update ascertain.gates set by = 'x' where false",
    "epochs": "insert into ascertain.epochs select * from ascertain.epochs where false",
    "deliveries": "update ascertain.deliveries set count = 2 where false",
    "outbox": "update ascertain.outbox_entries set reason = 'x' where false",
    "put": "insert into ascertain.outbox_entries (task_id, content) values ('x', '{}')",
    "inbox": "insert into ascertain.inbox_messages (consumer, message_id) values ('', 'x')",
}
MAY = {
    "worker": {"effects", "audit", "gates", "deliveries", "epochs"},
    "operator": {"gates", "deliveries", "epochs"},
    "reader": set(),
    "service": {"put", "inbox"},
    "relay": {"outbox"},
}


@pytest.fixture
async def accounts(postgres, database):
    """Role to address: a ledger and an outbox in one database, with a login of each role."""
    await migrate(database, schema=Schema.SERVICE)
    for schema in Schema:
        await grant_roles(database, schema)
        await grant_roles(database, schema)
    connection = await asyncpg.connect(database)
    urls = {}
    for role in ROLES:
        login = f"login_{role}"
        await connection.execute(f"drop role if exists {login}")
        await connection.execute(
            f"create role {login} login password 'pw' in role ascertain_{role}"
        )
        host = database.split("@")[1]
        urls[role] = f"postgresql://{login}:pw@{host}"
    yield urls
    for role in ROLES:
        await connection.execute(f"drop role login_{role}")
    await connection.close()


@pytest.fixture
def cli(tmp_path, temporal) -> Cli:
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.defpath,
        "TEMPORAL_ADDRESS": temporal.address,
        "TEMPORAL_NAMESPACE": temporal.namespace,
    }
    return Cli(environment, tmp_path)


async def test_a_worker_claims_and_settles(accounts, database):
    ledger = await open_ledger(accounts["worker"])
    lease = await granted(ledger)
    assert (await moved(ledger.record(lease, settled()))).state is State.SETTLED
    await ledger.aclose()


async def test_an_operator_moves_gates_and_counts_deliveries(accounts):
    ledger = await open_ledger(accounts["operator"])
    change = GateChange(partition="eur", paused=True, by="ada", reason="test", request_id="r")
    assert (await ledger.set_gate(change)).paused
    assert await ledger.effects(EffectFilter()) == []
    await ledger.aclose()
    book = DeliveryBook(accounts["operator"])
    assert await book.of_task("t") == []
    await book.aclose()


async def test_an_operator_archives_and_nobody_else_does(accounts):
    worker = await open_ledger(accounts["worker"])
    await moved(worker.record(await granted(worker), settled()))
    with pytest.raises(InvalidSettings, match="does not let the account login_worker do this"):
        await worker.upkeep.archive(timedelta(0))
    operator = await open_ledger(accounts["operator"])
    assert (await operator.upkeep.archive(timedelta(0))).archived == 1
    case = await worker.inspect("ef1-1")
    assert case is not None
    assert case.row.state is State.SETTLED
    await worker.aclose()
    await operator.aclose()


async def test_an_account_that_may_not_is_told_which_it_is_and_what_makes_the_roles(accounts, cli):
    reader = {"ASCERTAIN_LEDGER_URL": accounts["reader"]}
    pause = ("pause", "eur", "--reason", "x", "--operator", "ada")
    for command in (pause, ("archive", "--older-than", "1d")):
        answer = await cli(*command, code=7, **reader)
        assert "does not let the account login_reader do this (permission denied" in answer.sentence
        assert "`ascertain migrate --roles`" in answer.sentence
    relay = ("relay", "--status")
    answer = await cli(*relay, code=7, ASCERTAIN_OUTBOX_URL=accounts["reader"])
    assert "the outbox at" in answer.sentence
    assert "`ascertain migrate --outbox URL --roles`" in answer.sentence
    assert "pw" not in answer.err
    service = await cli("doctor", code=7, ASCERTAIN_LEDGER_URL=accounts["service"])
    assert "failed   ledger: the ledger at" in service.out
    assert "the account login_service" in service.out


async def test_whoever_lacks_the_rights_of_its_work_does_not_start_and_says_what_grants_them(
    accounts, database, cli
):
    refused = await cli(
        "worker", "--log-level", "error", code=7, ASCERTAIN_LEDGER_URL=accounts["operator"]
    )
    assert refused.out == ""
    assert "the account login_operator at" in refused.sentence
    assert "insert on effects" in refused.sentence
    assert "`grant ascertain_worker to login_operator`" in refused.sentence
    assert "`ascertain migrate --roles` makes the role" in refused.sentence
    owner = await asyncpg.connect(database)
    await owner.execute("grant select on ascertain.outbox_entries to login_reader")
    relay = await cli("relay", code=7, ASCERTAIN_OUTBOX_URL=accounts["reader"])
    await owner.execute("revoke select on ascertain.outbox_entries from login_reader")
    await owner.close()
    assert relay.out == ""
    assert "`grant ascertain_relay to login_reader`" in relay.sentence
    assert "`ascertain migrate --outbox URL --roles`" in relay.sentence


async def test_a_role_is_enough_to_start_and_what_is_asked_for_is_what_it_is_granted(
    accounts, database
):
    ledger = await open_ledger(accounts["worker"], role="ascertain_worker")
    await ledger.aclose()
    queue = await Queue.open(accounts["relay"], role="ascertain_relay")
    await queue.aclose()
    owner = await asyncpg.connect(database)
    written = await owner.fetch(
        "select relname, lower(privilege_type) as privilege from pg_class, aclexplode(relacl)"
        " where relnamespace = 'ascertain'::regnamespace and privilege_type <> 'SELECT'"
        " and grantee = 'ascertain_worker'::regrole"
    )
    await owner.close()
    asked = {(table, right) for table, all_ in NEEDED["ascertain_worker"].items() for right in all_}
    assert asked == {(record["relname"], record["privilege"]) for record in written}


async def test_the_roles_that_are_made_are_named(database, cli):
    made = await cli("migrate", "--roles", "--json", ASCERTAIN_LEDGER_URL=database)
    beside = await cli("migrate", "--outbox", database, "--roles", "--json")
    named = made.document["roles"] + beside.document["roles"]
    connection = await asyncpg.connect(database)
    granted = await connection.fetch(
        "select distinct grantee::regrole::text as role from pg_namespace, aclexplode(nspacl)"
        " where nspname = 'ascertain' and grantee <> nspowner"
    )
    await connection.close()
    assert sorted(named) == sorted(record["role"] for record in granted)
    told = await cli("migrate", "--roles", ASCERTAIN_LEDGER_URL=database)
    assert "role ascertain_reader is there and has its grants" in told.out
    assert (await cli("migrate", "--json", ASCERTAIN_LEDGER_URL=database)).document["roles"] == []


async def test_a_reader_reads(accounts):
    ledger = await open_ledger(accounts["reader"])
    assert await ledger.effects(EffectFilter()) == []
    assert await ledger.gates() == []
    await ledger.aclose()


async def test_which_ledger_it_is_every_role_is_told_alike(accounts, database):
    told = set()
    for url in (database, *(accounts[role] for role in ("worker", "operator", "reader"))):
        ledger = await open_ledger(url)
        told.add(await ledger.upkeep.origin())
        await ledger.aclose()
    assert len(told) == 1


async def test_a_service_puts_and_receives_and_a_relay_starts(accounts, service):
    connection = await asyncpg.connect(accounts["service"])
    async with connection.transaction():
        await outbox.put(connection, service.task("a"))
        assert await inbox.once(connection, "m-1", content=1)
        assert not await inbox.once(connection, "m-1", content=1)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.fetch("select * from ascertain.outbox_entries")
    await connection.close()
    queue = await Queue.open(accounts["relay"])
    relay = Relay(queue, service.client)
    await relay.drain()
    assert relay.tally.started == 1
    assert await queue.prune(timedelta(0)) == 1
    await queue.aclose()


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_can_do_nothing_else(accounts, role):
    connection = await asyncpg.connect(accounts[role])
    for statement in FORBIDDEN:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    done = set()
    for name, statement in WRITES.items():
        try:
            await connection.execute(statement)
        except asyncpg.InsufficientPrivilegeError:
            continue
        done.add(name)
    assert done == MAY[role]
    await connection.close()
