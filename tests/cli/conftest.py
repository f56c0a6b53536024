from __future__ import annotations

import asyncio
import json
import os
import shutil
import sysconfig
import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ascertain import keys
from ascertain.client import Client
from ascertain.ledger.postgres import open_ledger
from ascertain.testing.outside import Outside
from tests.cli.deployment import write_config

PROGRAM = Path(sysconfig.get_path("scripts")) / "ascertain"
_numbers = count(1)


@dataclass(frozen=True)
class Answer:
    """What one run of the command came to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one sentence of an error; nothing else may be on standard error."""
        (line,) = self.err.splitlines()
        assert line.startswith("ascertain: ")
        return line.removeprefix("ascertain: ")


@dataclass
class Cli:
    """Runs the installed command as a process of its own, with no variables but these."""

    environment: dict[str, str]
    folder: Path

    async def __call__(
        self,
        *arguments: str,
        code: int = 0,
        stdin: bytes = b"",
        **environment: str | None,
    ) -> Answer:
        process = await self.start(*arguments, **environment)
        try:
            async with asyncio.timeout(120):
                out, err = await process.communicate(stdin)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        answer = Answer(process.returncode, out.decode(), err.decode())
        assert answer.code == code, answer
        assert "Traceback" not in answer.err
        return answer

    async def start(self, *arguments: str, **environment: str | None) -> asyncio.subprocess.Process:
        wanted = {**self.environment, **environment}
        return await asyncio.create_subprocess_exec(
            PROGRAM,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env={name: value for name, value in wanted.items() if value is not None},
        )


@dataclass
class Deployed:
    """A deployment with a worker, a ledger and an outside of its own."""

    cli: Cli
    client: Client
    ledger: Any
    outside: Outside
    folder: Path
    _tasks: Any = field(default_factory=lambda: count(1))

    def new_id(self, name: str = "t") -> str:
        return f"{name}-{next(self._tasks)}"

    def effect_id(self, task_id: str, step: str = "note") -> str:
        return keys.effect_id("default", task_id, step, 0)

    def task(self, task_id: str, kind: str = "note.create", **more: Any) -> dict[str, Any]:
        steps = [{"name": "note", "kind": kind, "input": {"text": f"for {task_id}"}}]
        return {"task_id": task_id, "kind": "greeting", "steps": steps, **more}

    def file(self, *tasks: Any, name: str = "task.json") -> str:
        """A file with one task, or with one a line."""
        path = self.folder / f"{next(_numbers)}-{name}"
        lines = [task if isinstance(task, str) else json.dumps(task) for task in tasks]
        path.write_text("\n".join(lines) + "\n")
        return str(path)


@pytest.fixture
def cli(tmp_path) -> Cli:
    """The command on a machine where nothing runs."""
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.defpath,
        "USER": "ada",
        "ASCERTAIN_DATA": str(tmp_path / "no-stack"),  # not one that runs on this machine
    }
    return Cli(environment, tmp_path)


@pytest.fixture(scope="session")
async def deployed(postgres, template, temporal, temporal_client):
    """One deployment with one real worker process for all tests of the command."""
    folder = Path(tempfile.mkdtemp(prefix="ascertain-cli-"))
    url = await postgres.create_database("cli", template=template)
    async with Outside() as outside:
        config = write_config(folder, outside.url)
        environment = {
            "HOME": str(folder),
            "PATH": os.defpath,
            "USER": "ada",
            "TEMPORAL_ADDRESS": temporal.address,
            "TEMPORAL_NAMESPACE": temporal.namespace,
            "ASCERTAIN_LEDGER_URL": url,
            "ASCERTAIN_CONFIG": str(config),
        }
        cli = Cli(environment, folder)
        ledger = await open_ledger(url)
        client = Client(temporal_client, task_queue="cli")
        worker = await cli.start("worker", "--log-level", "warning")
        try:
            async with asyncio.timeout(120):
                ready = (await worker.stdout.readline()).decode()
            assert ready.startswith("ready: "), (ready, await worker.stderr.read())
            yield Deployed(cli, client, ledger, outside, folder)
        finally:
            worker.terminate()
            await worker.communicate()
            await ledger.aclose()
    await postgres.drop_database("cli")
    shutil.rmtree(folder)
