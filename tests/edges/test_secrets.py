"""Planted secrets are found nowhere: not in histories, the ledger, logs, traces, errors or answers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path

import asyncpg
import pytest

from ascertain.codec import KEYS_VARIABLE, new_key
from ascertain.testing.knob import Answer, Rule, SubmitKnobs
from ascertain.testing.outside import Outside
from tests.cli.conftest import Cli
from tests.cli.deployment import write_config

SECRET = "planted-7f3a91-do-not-tell"
INPUT = "planted-input-55c0de"
TABLES = """
    select quote_ident(table_name) from information_schema.tables where table_schema = 'ascertain'
"""


@pytest.fixture
async def deployment(postgres, template, temporal, temporal_client):
    """A deployment with a secret and with keys, whose worker logs everything."""
    folder = Path(tempfile.mkdtemp(prefix="ascertain-secret-"))
    url = await postgres.create_database("secrets", template=template)
    keys = folder / "keys"
    keys.write_text(new_key("k1") + "\n")
    async with Outside() as outside:
        config = write_config(folder, outside.url)
        text = config.read_text().replace('task_queue = "cli"', 'task_queue = "secrets"')
        config.write_text(
            text.replace(
                "timeout = 1\n", 'timeout = 1\nheaders = { Authorization = "secret:NOTES_KEY" }\n'
            )
        )
        environment = {
            "HOME": str(folder),
            "PATH": os.defpath,
            "USER": "ada",
            "TEMPORAL_ADDRESS": temporal.address,
            "TEMPORAL_NAMESPACE": temporal.namespace,
            "ASCERTAIN_LEDGER_URL": url,
            "ASCERTAIN_CONFIG": str(config),
            KEYS_VARIABLE: str(keys),
        }
        cli = Cli(environment, folder)
        worker = await cli.start(
            "worker", "--log-level", "debug", ASCERTAIN_SECRET_NOTES_KEY=f"Bearer {SECRET}"
        )
        assert (await asyncio.wait_for(worker.stdout.readline(), 60)).startswith(b"ready: ")
        yield cli, outside, worker, url, temporal_client
        if worker.returncode is None:
            worker.terminate()
            await worker.communicate()
    await postgres.drop_database("secrets")
    shutil.rmtree(folder)


def task(name: str, kind: str = "note.create") -> dict:
    step = {"name": "note", "kind": kind, "input": {"text": f"{INPUT} {name}"}}
    return {"task_id": f"secret-{name}", "kind": "greeting", "steps": [step]}


async def test_planted_secrets_are_found_nowhere(deployment):
    cli, outside, worker, url, temporal_client = deployment
    echo = {"error": f"who is Bearer {SECRET}?", "id": SECRET, "message": SECRET}
    for status in (400, 500):
        reply = Answer(status=status, body=echo)
        outside.rules.add(Rule(times=1, submit=SubmitKnobs(reply=reply)))
    answers = []
    for name in ("refused", "unknown", "fine"):
        file = cli.folder / f"{name}.json"
        file.write_text(json.dumps(task(name)))
        process = await cli.start("submit", str(file), "--within", "60", "--json")
        answers += await process.communicate()
        for command in (("explain",), ("show", "--json")):
            process = await cli.start(command[0], f"secret-{name}", *command[1:])
            answers += await process.communicate()
    histories = b""
    for name in ("refused", "unknown", "fine"):
        history = await temporal_client.get_workflow_handle(f"secret-{name}").fetch_history()
        histories += b"".join(event.SerializeToString() for event in history.events)
    connection = await asyncpg.connect(url)
    ledger = b""
    for (table,) in await connection.fetch(TABLES):
        rows = await connection.fetch(f"select * from ascertain.{table}")  # noqa: S608 - our own tables
        values = [value for record in rows for value in record.values()]
        ledger += b" ".join(v if isinstance(v, bytes) else str(v).encode() for v in values)
    await connection.close()
    worker.terminate()
    out, log = await worker.communicate()
    assert len(outside.books.submits) >= 3
    places = {"histories": histories, "ledger": ledger, "log": out + log}
    places |= {f"answer {n}": answer for n, answer in enumerate(answers)}
    for place, content in places.items():
        assert SECRET.encode() not in content, place
    # What a task holds is not Temporal's to read; the ledger and the operators may.
    assert INPUT.encode() not in histories
    assert INPUT.encode() in ledger
