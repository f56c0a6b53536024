"""Planted secrets are found nowhere: not in histories, the ledger, logs, traces, errors or answers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from ascertain.codec import KEYS_VARIABLE, new_key
from ascertain.testing.knob import Answer, Rule, SubmitKnobs
from ascertain.testing.outside import Outside
from tests.cli.conftest import PROGRAM, Cli
from tests.cli.deployment import write_config
from tests.collector import Collector
from tests.waiting import wait_until

HEADER = "planted-7f3a91-do-not-tell"
LEAKED = "planted-c2d8e4-raised"
INPUT = "planted-input-55c0de"
_numbers = count(1)
TABLES = """
    select quote_ident(table_name) from information_schema.tables where table_schema = 'ascertain'
"""
LEAKY = """
[kinds."leaky.note"]
adapter = "tests.edges.leaky_adapter:create"
options = { key = "secret:LEAKED" }
policy = { lease = 10, retry_base = 0.1, ask_first = 0.05 }
"""


@dataclass
class Deployment:
    """A deployment with secrets, whose worker logs everything."""

    name: str
    cli: Cli
    outside: Outside
    collector: Collector
    temporal: Any
    worker: Any = None
    said: list[bytes] = field(default_factory=list)

    @property
    def sealed(self) -> bool:
        return KEYS_VARIABLE in self.cli.environment

    @property
    def ledger_url(self) -> str:
        return self.cli.environment["ASCERTAIN_LEDGER_URL"]

    @property
    def planted(self) -> list[str]:
        """What must be found nowhere."""
        found = [HEADER, LEAKED, str(urlsplit(self.ledger_url).password)]
        if self.sealed:
            found.append((self.cli.folder / "keys").read_text().strip().partition(":")[2])
        return found

    async def start(self) -> None:
        """Start the worker; its log is a file, for a pipe that nobody reads stops who writes."""
        with (self.cli.folder / "log").open("wb") as log:
            self.worker = await asyncio.create_subprocess_exec(
                *(PROGRAM, "worker", "--log-level", "debug"),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=self.cli.folder,
                env={
                    **self.cli.environment,
                    "ASCERTAIN_SECRET_HEADER": f"Bearer {HEADER}",
                    "ASCERTAIN_SECRET_LEAKED": LEAKED,
                },
            )
        ready = await asyncio.wait_for(self.worker.stdout.readline(), 60)
        assert ready.startswith(b"ready: "), (self.cli.folder / "log").read_text()

    async def stop(self) -> None:
        """End it, so that it sends the traces that it holds back."""
        if self.worker.returncode is None:
            self.worker.terminate()
            self.said += [part for part in await self.worker.communicate() if part]

    async def run(self, *words: str) -> bytes:
        """Run a command and keep all that it says."""
        process = await self.cli.start(*words)
        async with asyncio.timeout(90):
            out, err = await process.communicate()
        self.said += [out, err]
        return out

    async def submit(self, what: str, *words: str, kind: str = "note.create", **content: Any):
        step = {"name": "note", "kind": kind, "input": {"text": f"{INPUT} {what}", **content}}
        task = {"task_id": f"{self.name}-{what}", "kind": "greeting", "steps": [step]}
        file = self.cli.folder / f"{what}.json"
        file.write_text(json.dumps(task))
        await self.run("submit", str(file), "--json", *words)

    async def until(self, task_id: str, word: str) -> None:
        """Wait until the operator is told of this."""

        async def told() -> bool:
            return word.encode() in await self.run("explain", task_id)

        await wait_until(told, 60, what=f"{word} in what is told of {task_id}")

    async def places(self) -> dict[str, bytes]:
        """Wherever a secret could be found."""
        histories, ledger = await self._histories(), await self._ledger()
        await self.stop()
        log = (self.cli.folder / "log").read_bytes()
        answers = {f"answer {number}": said for number, said in enumerate(self.said)}
        kept = {"histories": histories, "ledger": ledger, "traces": self.collector.received}
        return {**kept, "log": log, **answers}

    async def _histories(self) -> bytes:
        """Every event of every workflow, and what lists and descriptions show of them."""
        query = f"TaskQueue = '{self.name}'"

        async def all_of_them() -> bool:  # five tasks and a census; visibility lags
            return (await self.temporal.count_workflows(query)).count >= 6

        await wait_until(all_of_them, 60, what="the workflows")
        found = b""
        async for workflow in self.temporal.list_workflows(query):
            handle = self.temporal.get_workflow_handle(workflow.id, run_id=workflow.run_id)
            found += (await handle.describe()).raw_description.SerializeToString()
            history = await handle.fetch_history()
            found += b"".join(event.SerializeToString() for event in history.events)
        return found

    async def _ledger(self) -> bytes:
        """Every value of every table."""
        connection = await asyncpg.connect(self.ledger_url)
        found = b""
        for (table,) in await connection.fetch(TABLES):
            rows = await connection.fetch(f"select * from ascertain.{table}")  # noqa: S608 - our own tables
            values = [value for record in rows for value in record.values()]
            found += b" ".join(v if isinstance(v, bytes) else str(v).encode() for v in values)
        await connection.close()
        return found


@pytest.fixture(params=["sealed", "plain"])
async def deployment(request, postgres, template, temporal, temporal_client):
    name = f"secrets_{request.param}_{next(_numbers)}"
    folder = Path(tempfile.mkdtemp(prefix="ascertain-secret-"))
    url = await postgres.create_database(name, template=template)
    async with Outside() as outside, Collector() as collector:
        config = write_config(folder, outside.url)
        text = config.read_text().replace('"cli"', f'"{name}"', 1)
        keyed = 'timeout = 3\nheaders = { Authorization = "secret:HEADER" }\n'
        config.write_text(text.replace("timeout = 3\n", keyed) + LEAKY)
        environment = {
            "HOME": str(folder),
            "PATH": os.defpath,
            "USER": "ada",
            "TEMPORAL_ADDRESS": temporal.address,
            "TEMPORAL_NAMESPACE": temporal.namespace,
            "ASCERTAIN_LEDGER_URL": url,
            "ASCERTAIN_CONFIG": str(config),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        }
        if request.param == "sealed":
            (folder / "keys").write_text(new_key("k1") + "\n")
            environment[KEYS_VARIABLE] = str(folder / "keys")
        deployed = Deployment(name, Cli(environment, folder), outside, collector, temporal_client)
        await deployed.start()
        yield deployed
        await deployed.stop()
    await postgres.drop_database(name)
    shutil.rmtree(folder)


@pytest.mark.timeout(400)
async def test_planted_secrets_are_found_nowhere(deployment):
    echo = {"error": f"who is Bearer {HEADER}?", "id": HEADER, "message": HEADER}
    for status in (400, 500):
        reply = Answer(status=status, body=echo)
        deployment.outside.rules.add(Rule(times=1, submit=SubmitKnobs(reply=reply)))
    for name in ("refused", "unknown", "fine"):
        await deployment.submit(name, "--within", "60")
    # What an adapter raises is told by its type alone.
    for leak, told in {"prepare": "KeyError", "perform": "OSError"}.items():
        await deployment.submit(leak, kind="leaky.note", leak=leak)
        await deployment.until(f"{deployment.name}-{leak}", told)
    assert b"ValueError" in await deployment.run("census", "--kind", "leaky.note", "--json")
    for name in ("refused", "unknown"):
        await deployment.run("explain", f"{deployment.name}-{name}")
    await deployment.run("show", f"{deployment.name}-perform", "--json")
    assert len(deployment.outside.books.submits) >= 3
    places = await deployment.places()
    assert places["traces"]
    for place, content in places.items():
        for secret in deployment.planted:
            assert secret.encode() not in content, (place, secret)
    # What a task holds is for the ledger and the operators; Temporal has it unless it is sealed.
    assert INPUT.encode() in places["ledger"]
    assert INPUT.encode() not in places["traces"]
    assert (INPUT.encode() in places["histories"]) is not deployment.sealed
