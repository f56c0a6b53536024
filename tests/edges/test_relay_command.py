"""``ascertain relay`` and ``ascertain migrate --outbox``, as people run them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import asyncpg
import pytest

from ascertain import metric
from ascertain.ledger.migration import Schema, check, migrate, migrations
from ascertain.metric import Source
from tests.cli.conftest import Cli
from tests.ledger.schema import describe
from tests.protocol.watching import becomes, fetch, series, value
from tests.waiting import wait_until

# After a new migration: python -m tests.ledger.schema URL > tests/edges/schema.txt, and review it.
SNAPSHOT = Path(__file__).with_name("schema.txt")
SERVICE = [known.name for known in migrations(Schema.SERVICE)]


@pytest.fixture
def cli(tmp_path, service, temporal) -> Cli:
    config = tmp_path / "ascertain.toml"
    config.write_text(f'task_queue = "{service.name}"\n')
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.defpath,
        "ASCERTAIN_CONFIG": str(config),
        "ASCERTAIN_OUTBOX_URL": service.url,
        "TEMPORAL_ADDRESS": temporal.address,
        "TEMPORAL_NAMESPACE": temporal.namespace,
    }
    return Cli(environment, tmp_path)


async def test_the_relay_runs_until_it_is_told_to_stop(service, cli):
    process = await cli.start("relay", "--json")
    ready = json.loads(await process.stdout.readline())
    assert ready["ready"].startswith("relay ")
    await service.put_raw("a", service.task("a"))

    async def runs():
        return await service.client.ended(service.id("a")) is None

    await wait_until(runs, what="the start of the task")
    process.send_signal(signal.SIGTERM)
    _, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")


async def test_a_relay_shows_how_far_behind_it_is_and_what_it_did(service, cli, free_port):
    await service.put_raw("a", service.task("a"))
    await service.put_raw("a", service.task("a"))
    await service.put_raw("bad", {"task_id": "bad id"})
    await service.connection.execute(
        "update ascertain.outbox_entries set takes = 1 where task_id = 'bad'"
    )
    process = await cli.start("relay", "--metrics", f"127.0.0.1:{free_port}", "--json")
    await process.stdout.readline()
    assert await fetch(free_port, "/ready") == (200, "ready\n")
    await becomes(free_port, 1, "ascertain_outbox_entries_total", fate="set_aside")
    for fate in ("started", "duplicate"):
        await becomes(free_port, 1, "ascertain_outbox_entries_total", fate=fate)
    assert await value(free_port, "ascertain_outbox_taken_again_total") == 1
    await becomes(free_port, 1, "ascertain_outbox_set_aside")
    shown = set(await series(free_port)) - {"target_info"}
    assert shown == {each.shown for each in metric.METRICS if each.source is Source.RELAY}
    process.send_signal(signal.SIGTERM)
    await process.communicate()
    assert process.returncode == 0


async def test_status_and_set_aside_tell_what_is_where(service, cli):
    await service.put_raw("a", service.task("a"))
    before = (await cli("relay", "--status", "--json")).document
    assert before.pop("lag") > 0
    assert before == {"waiting": 1, "in_hand": 0, "set_aside": 0, "started": 0, "kept": 1}
    await service.put_raw("bad", {"task_id": "bad id"})
    once = await cli("relay", "--once", "--json")
    assert once.document == {"started": 1, "duplicate": 0, "set_aside": 1}
    assert "1 set aside; see --set-aside" in (await cli("relay", "--status")).out
    (aside,) = (await cli("relay", "--set-aside", "--json")).document["entries"]
    assert "task_id" in aside["reason"]
    assert aside["reason"] in (await cli("relay", "--set-aside")).out
    back = await cli("relay", "--again", str(aside["entry_id"]), "--json")
    assert back.document == {"entries": [aside["entry_id"]]}
    assert (await cli("relay", "--again-all")).out == "0 put back\n"


async def test_what_is_missing_is_said_in_one_sentence(service, cli, postgres):
    answer = await cli("relay", ASCERTAIN_OUTBOX_URL=None, code=7)
    assert "set ASCERTAIN_OUTBOX_URL" in answer.sentence
    answer = await cli("relay", "--status", ASCERTAIN_OUTBOX_URL=postgres.url, code=7)
    assert "run `ascertain migrate --outbox URL`" in answer.sentence
    answer = await cli("migrate", "--check", "--outbox", postgres.url, code=7)
    assert "run `ascertain migrate --outbox URL`" in answer.sentence
    nobody = "postgresql://a:b@127.0.0.1:1/x"
    answer = await cli("relay", "--status", ASCERTAIN_OUTBOX_URL=nobody, code=6)
    assert "the outbox at 127.0.0.1:1/x does not answer" in answer.sentence
    gone = {"ASCERTAIN_OUTBOX_URL": None, "ASCERTAIN_OUTBOX_URL_FILE": "/nowhere/url"}
    answer = await cli("relay", **gone, code=7)
    assert "ASCERTAIN_OUTBOX_URL_FILE names /nowhere/url, which cannot be read" in answer.sentence


async def test_ledger_and_outbox_can_share_a_database_and_are_migrated_apart(cli, database):
    applied = await cli("migrate", "--outbox", database, "--json")
    assert applied.document["applied"] == SERVICE
    assert (await cli("migrate", "--outbox", database, "--json")).document["applied"] == []
    await check(database)
    await check(database, Schema.SERVICE)
    assert await migrate(database) == []


async def test_the_snapshot_is_what_the_migrations_make(service):
    connection = await asyncpg.connect(service.url)
    try:
        await connection.execute("drop table orders")
        described = await describe(connection)
    finally:
        await connection.close()
    assert described == SNAPSHOT.read_text()
