"""PostgreSQL and Temporal over TLS: both sides show a certificate, and one that is not trusted is told."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlencode

import pytest

from ascertain.errors import InvalidSettings, LedgerDown
from ascertain.ledger.migration import migrate
from ascertain.ledger.postgres import open_ledger
from ascertain.testing.outside import Outside
from tests.cli.conftest import Cli
from tests.cli.deployment import write_config
from tests.edges.tls import Authority, Pair, tls_end
from tests.ledger.steps import granted, moved, settled


@pytest.fixture(scope="module")
def folder():
    made = Path(tempfile.mkdtemp(prefix="ascertain-tls-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def ours(folder) -> Authority:
    return Authority(folder, "ours")


@pytest.fixture(scope="module")
def theirs(folder) -> Authority:
    return Authority(folder, "theirs")


@pytest.fixture(scope="module")
def server(ours) -> Pair:
    return ours.issue("server")


@pytest.fixture(scope="module")
def client(ours) -> Pair:
    return ours.issue("client")


@pytest.fixture
async def ledger_port(database, ours, server):
    plain = int(database.rpartition(":")[2].partition("/")[0])
    async with tls_end(plain, server, ours, postgres=True) as port:
        yield port


def secured(database: str, port: int, trusted: Authority, shown: Pair | None) -> str:
    """The address of that database with TLS."""
    words = {"sslmode": "verify-full", "sslrootcert": str(trusted.file)}
    if shown is not None:
        words |= {"sslcert": str(shown.certificate), "sslkey": str(shown.key)}
    account, _, place = database.rpartition("@")
    return f"{account}@127.0.0.1:{port}/{place.partition('/')[2]}?{urlencode(words)}"


async def test_a_ledger_is_used_over_tls_with_certificates_of_both_sides(
    database, ledger_port, ours, client
):
    url = secured(database, ledger_port, ours, client)
    assert await migrate(url) == []
    ledger = await open_ledger(url)
    assert (await moved(ledger.record(await granted(ledger), settled()))).receipt is not None
    await ledger.aclose()


async def test_a_ledger_whose_certificate_is_not_trusted_is_a_wrong_setting(
    database, ledger_port, theirs, client
):
    url = secured(database, ledger_port, theirs, client)
    for use in (open_ledger, migrate):
        with pytest.raises(
            InvalidSettings, match=r"shows a certificate that is not trusted: .*sslrootcert"
        ):
            await use(url)


async def test_a_file_that_tls_needs_and_that_is_not_there_is_named(
    database, ledger_port, folder, ours, client
):
    missing = Pair(folder / "nowhere.pem", client.key)
    for url in (
        secured(database, ledger_port, ours, missing),
        secured(database, ledger_port, ours, client).replace("ours.pem", "nowhere.pem"),
    ):
        with pytest.raises(InvalidSettings, match=r"nowhere\.pem"):
            await open_ledger(url)


async def test_who_verifies_must_say_whose_certificates_are_trusted(
    database, ledger_port, folder, monkeypatch
):
    monkeypatch.setenv("HOME", str(folder))
    with pytest.raises(InvalidSettings, match="sslrootcert in its address must name the file"):
        await open_ledger(f"{database}?sslmode=verify-full")


async def test_a_ledger_that_wants_a_certificate_and_is_shown_none_does_not_serve_us(
    database, ledger_port, ours
):
    with pytest.raises(LedgerDown):
        await open_ledger(secured(database, ledger_port, ours, None))


async def test_a_ledger_without_tls_is_not_used_where_tls_is_asked_for(database, ours, client):
    plain = int(database.rpartition(":")[2].partition("/")[0])
    with pytest.raises(LedgerDown, match="rejected SSL upgrade"):
        await open_ledger(secured(database, plain, ours, client))


@pytest.fixture
async def there(database, ledger_port, temporal, folder, ours, server, client):
    """A deployment that is reached over TLS alone."""
    async with AsyncExitStack() as running:
        port = await running.enter_async_context(tls_end(temporal.port, server, ours))
        outside = await running.enter_async_context(Outside())
        config = write_config(folder, outside.url)
        config.write_text(config.read_text().replace('"cli"', '"tls"', 1))
        environment = {
            "HOME": str(folder),
            "PATH": os.defpath,
            "USER": "ada",
            "ASCERTAIN_CONFIG": str(config),
            "ASCERTAIN_LEDGER_URL": secured(database, ledger_port, ours, client),
            "TEMPORAL_ADDRESS": f"127.0.0.1:{port}",
            "TEMPORAL_NAMESPACE": temporal.namespace,
            "TEMPORAL_TLS": "true",
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(ours.file),
            "TEMPORAL_TLS_CLIENT_CERT_PATH": str(client.certificate),
            "TEMPORAL_TLS_CLIENT_KEY_PATH": str(client.key),
        }
        yield Cli(environment, folder)


async def test_a_task_is_done_by_a_worker_that_reaches_both_servers_over_tls(there, tmp_path):
    worker = await there.start("worker")
    try:
        assert (await asyncio.wait_for(worker.stdout.readline(), 60)).startswith(b"ready: ")
        file = tmp_path / "task.json"
        step = {"name": "note", "kind": "note.create", "input": {"text": "sealed"}}
        file.write_text(json.dumps({"task_id": "over-tls", "kind": "greeting", "steps": [step]}))
        done = await there("submit", str(file), "--wait", "--json")
        assert done.document["result"]["outcome"] == "DONE"
        told = await there("doctor", "--json", code=0)
        assert {check["verdict"] for check in told.document["checks"]} <= {"ok", "skipped"}
    finally:
        worker.terminate()
        await worker.communicate()


async def test_a_temporal_whose_certificate_is_not_trusted_is_told_as_that(there, theirs):
    answer = await there("list", code=7, TEMPORAL_TLS_SERVER_CA_CERT_PATH=str(theirs.file))
    assert "shows a certificate that is not trusted (UnknownIssuer)" in answer.sentence
    assert "TEMPORAL_TLS_SERVER_CA_CERT_PATH" in answer.sentence


async def test_a_temporal_that_wants_a_certificate_serves_nobody_without(there):
    without = {"TEMPORAL_TLS_CLIENT_CERT_PATH": None, "TEMPORAL_TLS_CLIENT_KEY_PATH": None}
    answer = await there("list", code=6, **without)
    assert "no Temporal server answers" in answer.sentence
