"""The examples as a person runs them: one task of each domain, end to end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOMAINS = {"payment", "notification", "generation", "media", "sync", "computation"}


async def test_one_command_runs_a_task_of_each_domain_and_each_has_one_fact():
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ascertain", "examples", "--json"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, noted = await process.communicate()
    assert process.returncode == 0, noted.decode()[-3000:] + told.decode()
    shown = json.loads(told)["examples"]
    assert {one["kind"].split(".")[0] for one in shown} == DOMAINS
    facts = {one["kind"]: (one["facts"], one["facts_due"]) for one in shown}
    assert facts.pop("computation.quote") == (0, 0)
    assert set(facts.values()) == {(1, 1)}
    assert {one["outcome"] for one in shown} == {"DONE"}


async def test_ctrl_c_stops_what_was_started_and_says_so(server_directory):
    server_directory.chmod(0o711)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ascertain", "examples"),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(server_directory)},
    )
    assert (await process.stderr.readline()).startswith(b"Starting Temporal, PostgreSQL, ")
    assert await process.stderr.readline() == b"One task of each domain ...\n"
    process.send_signal(signal.SIGINT)
    _, noted = await process.communicate()
    assert process.returncode == 130
    assert noted.decode().splitlines()[-2:] == [
        "Stopping every server that was started: nothing of the examples goes on.",
        "interrupted",
    ]
    assert list(server_directory.iterdir()) == []
