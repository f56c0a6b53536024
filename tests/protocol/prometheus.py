"""A real Prometheus and its promtool for tests: Debian's package, unpacked and not installed.

Installed, it would start a server on a person's machine; unpacked, it is two programs below ``.venv``.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml

from starter.process import free_port
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HOME = Path(sys.prefix) / "prometheus"
PROGRAMS = HOME / "usr" / "bin"
FETCH = ("apt-get", "download", "-qq", "prometheus")
PATIENCE_S = 60


async def program(name: str) -> str:
    """Where ``prometheus`` or ``promtool`` is; on Debian it is fetched if it is not there.

    Raises:
        RuntimeError: It is not there and cannot be fetched from here.
    """
    found = _found(name)
    if found is None and shutil.which("apt-get"):
        await asyncio.to_thread(_fetch)
        found = _found(name)
    if found is None:
        raise RuntimeError(
            f"this test needs {name}, and it is not there: on Debian or Ubuntu run "
            "`apt-get install prometheus`, or leave it out with `./run test -m 'not prometheus'`"
        )
    return found


def _found(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=PROGRAMS)


def _fetch() -> None:
    """Unpack Debian's package, once for all processes of a run."""
    with (HOME.parent / "prometheus.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if PROGRAMS.exists():
            return
        with tempfile.TemporaryDirectory(dir=HOME.parent) as folder:
            os.chmod(folder, 0o755)  # noqa: PTH101,S103  # apt downloads as a user of its own
            if subprocess.run(FETCH, cwd=folder, check=False).returncode and os.geteuid() == 0:
                subprocess.run(("apt-get", "update", "-qq"), check=False)
                subprocess.run(FETCH, cwd=folder, check=False)
            for package in Path(folder).glob("*.deb"):
                subprocess.run(("dpkg", "-x", package, f"{folder}/whole"), check=True)
                shutil.move(f"{folder}/whole", HOME)


class Prometheus:
    """One server; what it knows is asked for over HTTP."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def get(self, path: str, **params: str) -> Any:
        """The data of an answer of its API.

        Raises:
            AssertionError: It answered with an error.
        """
        address = f"http://127.0.0.1:{self._port}/api/v1/{path}"
        async with aiohttp.ClientSession() as session, session.get(address, params=params) as told:
            answer = await told.json()
        assert answer["status"] == "success", (params, answer)
        return answer["data"]

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression gives now."""
        return (await self.get("query", query=expression))["result"]

    async def ready(self) -> bool:
        """Whether it answers."""
        try:
            return bool(await self.get("status/buildinfo"))
        except (aiohttp.ClientError, ValueError):
            return False


@asynccontextmanager
async def running(folder: Path, rules: Path, targets: list[int]) -> AsyncIterator[Prometheus]:
    """A server that fetches from these ports and evaluates these rules five times a second."""
    port = free_port()
    config = {
        "global": {"scrape_interval": "200ms", "evaluation_interval": "200ms"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {
                "job_name": "ascertain",
                "static_configs": [{"targets": [f"127.0.0.1:{target}" for target in targets]}],
            }
        ],
    }
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            await program("prometheus"),
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=log,
            stderr=log,
        )
    server = Prometheus(port)
    try:
        await wait_until(server.ready, PATIENCE_S, what="Prometheus answers")
        yield server
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
