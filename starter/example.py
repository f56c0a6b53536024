"""One task of each domain, run end to end, and counted in the outsides' own books."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import httpx
from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter

from ascertain import settings
from ascertain.cli.failure import leaving
from ascertain.client import Client
from ascertain.contracts.task import TaskOutcome
from ascertain.ledger.migration import migrate
from starter import part as parts
from starter.demo.provider import API_KEY, LocalStripe
from starter.plan import EXAMPLES, program
from starter.postgres import EmbeddedPostgres
from starter.process import free_port
from starter.temporal import TemporalServer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ascertain.contracts.task import TaskResult
    from starter.part import Say

DOMAINS: Final = EXAMPLES / "domains"
# As the deployment file writes them.
_STRIPE: Final = "http://127.0.0.1:8420"
_MODEL: Final = "http://127.0.0.1:8430"
_MAIL: Final = "port = 8440"
_FOLDER: Final = "/srv/ascertain-examples"
_PYTHON: Final = '"python3"'
_WITHIN: Final = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Shown:
    """What became of one example.

    Attributes:
        facts: How many the outside has, by its own books; None where nothing is left outside.
    """

    task_id: str
    kind: str
    outcome: str
    external_id: str | None
    facts: int | None

    @property
    def due(self) -> int:
        """How many facts there should be."""
        return 0 if self.facts is None else 1

    @property
    def ok(self) -> bool:
        """Done, and there is exactly one fact where there is any."""
        return self.outcome == TaskOutcome.DONE and self.facts in {None, 1}


async def run(say: Say) -> list[Shown]:
    """Start everything in a folder of its own, run the examples, and stop everything.

    Raises:
        SetupError: A part cannot run here; the message names its log.
    """
    folder = _new_folder()
    try:
        async with AsyncExitStack() as stack:
            with leaving(
                "Stopping every server that was started: nothing of the examples goes on."
            ):
                return await _Examples(folder).run(stack, say)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _new_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ascertain-examples-"))
    folder.chmod(0o711)  # as root, PostgreSQL runs as somebody else and must get to its data
    return folder


class _Examples:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mail_port, self._model_port = free_port(), free_port()
        self._temporal = TemporalServer(folder / "temporal", in_memory=True)
        self._postgres = EmbeddedPostgres(folder / "postgres")
        self._stripe = LocalStripe(folder / "localstripe")
        self._outside = parts.Outside(
            (
                sys.executable,
                str(DOMAINS / "outside.py"),
                str(self._mail_port),
                str(self._model_port),
            ),
            folder=folder / "outside",
            environment={},
        )

    async def run(self, stack: AsyncExitStack, say: Say) -> list[Shown]:
        say("Starting Temporal, PostgreSQL, localstripe, a mail server and a model API ...")
        servers = (self._temporal, self._postgres, self._stripe, self._outside)
        for server in servers:
            stack.push_async_callback(server.stop)
        async with asyncio.TaskGroup() as starting:
            for server in servers:
                starting.create_task(server.start())
        await migrate(self._postgres.url)
        target = await self._make_target()
        worker = self._worker(target)
        stack.push_async_callback(worker.stop)
        await worker.start()
        say("One task of each domain ...")
        temporal = await TemporalClient.connect(
            self._temporal.address,
            namespace=self._temporal.namespace,
            data_converter=pydantic_data_converter,
        )
        client = Client(temporal)
        lines = (DOMAINS / "tasks.jsonl").read_text("utf-8").splitlines()
        tasks = [json.loads(line) for line in lines]
        for task in tasks:
            await client.submit(task)
        results = [await client.result(task["task_id"], within=_WITHIN) for task in tasks]
        books = await self._books(target)
        return [_shown(task, result, books) for task, result in zip(tasks, results, strict=True)]

    async def _make_target(self) -> str:
        target = await self._postgres.create_database("target")
        connection = await asyncpg.connect(target)
        try:
            await connection.execute((DOMAINS / "target.sql").read_text("utf-8"))
        finally:
            await connection.close()
        return target

    def _worker(self, target: str) -> parts.Worker:
        shutil.copy(DOMAINS / "poster.py", self._folder)
        replaced = (DOMAINS / "ascertain.toml").read_text("utf-8")
        for written, found in (
            (_STRIPE, self._stripe.url),
            (_MODEL, f"http://127.0.0.1:{self._model_port}"),
            (_MAIL, f"port = {self._mail_port}"),
            (_FOLDER, str(self._folder)),
            (_PYTHON, json.dumps(sys.executable)),
        ):
            replaced = replaced.replace(written, found)
        file = self._folder / "ascertain.toml"
        file.write_text(replaced, "utf-8")
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("TEMPORAL_", "ASCERTAIN_"))
        }
        environment = kept | {
            settings.FILE_VARIABLE: str(file),
            settings.LEDGER_VARIABLE: self._postgres.url,
            "TEMPORAL_ADDRESS": self._temporal.address,
            "TEMPORAL_NAMESPACE": self._temporal.namespace,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "PYTHONPATH": str(DOMAINS),
            "ASCERTAIN_SECRET_STRIPE_KEY": API_KEY,
            "ASCERTAIN_SECRET_MODEL_KEY": "sk-example",
            "ASCERTAIN_SECRET_TARGET_DB": target,
        }
        command = program("ascertain", "worker")
        return parts.Worker(command, folder=self._folder / "worker", environment=environment)

    async def _books(self, target: str) -> dict[str, list[str]]:
        """By kind of task: one text for each fact, which names the effect that it is of."""
        key = {"Authorization": f"Bearer {API_KEY}"}
        async with httpx.AsyncClient() as client:
            listed = await client.get(f"{self._stripe.url}/v1/payment_intents", headers=key)
            told = (await client.get(f"http://127.0.0.1:{self._model_port}/books")).json()
        connection = await asyncpg.connect(target)
        try:
            records = await connection.fetch("table ascertain_effects")
        finally:
            await connection.close()
        return {
            "payment": [json.dumps(payment) for payment in listed.json()["data"]],
            "notification": told["mails"],
            "generation": [json.dumps(body) for body in told["generations"]],
            "media": [path.name for path in (self._folder / "posters").iterdir()],
            "synchronisation": [str(record["effect_id"]) for record in records],
        }


def _shown(task: Mapping[str, Any], result: TaskResult, books: Mapping[str, list[str]]) -> Shown:
    step, facts = result.steps[0], books.get(task["kind"])
    return Shown(
        task_id=task["task_id"],
        kind=task["steps"][0]["kind"],
        outcome=result.outcome.value,
        external_id=None if step.receipt is None else step.receipt.external_id,
        facts=None if facts is None else sum(step.effect_id in fact for fact in facts),
    )


def row(shown: Shown) -> tuple[str, str, str, str, str]:
    """For the table."""
    facts = "none needed" if shown.facts is None else str(shown.facts)
    return shown.task_id, shown.kind, shown.outcome, shown.external_id or "", facts


def document(shown: list[Shown]) -> dict[str, object]:
    """For ``--json``."""
    told = [asdict(one) | {"facts": one.facts or 0, "facts_due": one.due} for one in shown]
    return {"examples": told, "ok": all(one.ok for one in shown)}
