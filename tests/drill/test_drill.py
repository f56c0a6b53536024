"""The drill as a person starts it, a few rows of it; and that it notices when a protection is missing."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHIN_S = 220


@dataclass
class Ended:
    exit_code: int
    printed: str
    told: str

    @property
    def document(self):
        return json.loads(self.printed.splitlines()[-1])


@pytest.fixture
def drill(server_directory):
    """Runs the command; its folder lies below the test's own."""

    async def run(*words: str) -> Ended:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "ascertain", "drill", *words),
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(server_directory)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(WITHIN_S):
            printed, told = await process.communicate()
        return Ended(process.returncode or 0, printed.decode(), told.decode())

    return run


async def test_a_few_rows_come_out_right_and_leave_a_page_and_nothing_else(
    drill, server_directory, tmp_path
):
    file = tmp_path / "drill.html"
    server_directory.chmod(0o711)
    ended = await drill(
        *("--row", "crash-after-call", "--row", "consumed-concurrently"),
        *("--class", "asked", "--class", "neither", "--html", str(file), "--json"),
    )
    assert ended.exit_code == 0, ended.told
    told = ended.document
    assert (told["passed"], told["failed"], told["ok"]) == (8, 0, True)
    crashed = [row for row in told["rows"] if row["row"] == "crash-after-call"]
    assert {(row["class"], row["path"]) for row in crashed} == {
        (outside, path) for outside in ("asked", "neither") for path in ("inline", "queued")
    }
    assert {(row["facts"], row["requests"]) for row in crashed} == {(1, 1)}
    assert file.read_text("utf-8").count("<svg") == 8
    assert list(server_directory.iterdir()) == []


@pytest.mark.parametrize("protection", ["lookup", "claim"])
async def test_without_a_protection_the_same_row_makes_duplicates_and_the_drill_says_so(
    drill, server_directory, protection
):
    server_directory.chmod(0o711)
    ended = await drill(
        *("--row", "crash-after-call", "--class", "asked", "--path", "inline"),
        *("--without", protection, "--json"),
    )
    assert ended.exit_code == 1, ended.told
    (row,) = ended.document["rows"]
    assert row["facts"] == 2
    assert row["faults"][0].startswith("2 facts outside")


async def test_a_little_chaos_comes_right(drill, server_directory):
    server_directory.chmod(0o711)
    ended = await drill("--chaos", "--seconds", "8", "--seed", "4", "--json")
    assert ended.exit_code == 0, ended.told
    told = ended.document
    assert (told["duplicates"], told["lost"], told["ok"]) == (0, 0, True)
    assert told["tasks"] == told["effects"] > 0
    assert told["faults_injected"] == sum(told["faults"].values()) > 0


async def test_a_row_that_does_not_exist_is_a_usage_error_that_names_those_that_do(drill):
    ended = await drill("--row", "nothing")
    assert ended.exit_code == 2
    assert "crash-after-call" in ended.told
