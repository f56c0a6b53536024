from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.cpu import Process
from benchmarks.resident import resident

ROOT = Path(__file__).parents[2]
HOLD = """
import os, sys
held = b"x" * {size}
{before}
sys.stdout.write("holds\\n"); sys.stdout.flush(); sys.stdin.read()
"""
MIB = 1024**2


def held(size: int, before: str = "") -> tuple[int, int]:
    """What a process has in memory, without its children and with them."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD.format(size=size, before=before)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "holds\n"
        alone, family = (
            resident(Process(process.pid, with_children=also)) for also in (False, True)
        )
        process.stdin.close()
    return alone, family


def test_memory_that_a_process_holds_is_seen():
    (little, _), (much, _) = held(1), held(64 * MIB)
    assert much - little == pytest.approx(64 * MIB, rel=0.2)


def test_memory_that_a_process_shares_with_its_child_counts_once():
    alone, family = held(64 * MIB, before="if os.fork() == 0: sys.stdin.read(); os._exit(0)")
    assert alone < 64 * MIB < family < 96 * MIB


def test_a_process_that_has_ended_holds_nothing():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert resident(Process(process.pid, with_children=False)) == 0


@pytest.fixture(scope="session")
def measured() -> dict:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks", "memory", "--json"),
            *("--server", "memory", "--tasks", "4", "--settle", "0"),
        ],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_open_tasks_are_measured_beside_plain_workflows_that_wait(measured):
    assert measured["command"] == "./run bench memory --server memory --tasks 4 --settle 0"
    parts = {case: set(found) for case, found in measured["memory"].items()}
    assert parts == {
        "held in a paused partition": {"worker", "server", "database"},
        "UNKNOWN, asked tomorrow": {"worker", "server", "database"},
        "plain Temporal, waiting on a timer": {"worker", "server"},
    }
    for found in measured["memory"].values():
        for figures in found.values():
            assert figures["before"] > MIB
            grown = figures["after"] - figures["before"]
            assert figures["per_task"] == pytest.approx(grown / 4, abs=0.5)


def test_the_table_shows_every_part_of_every_case(measured):
    text = report.as_markdown(measured)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert sum("| server |" in row for row in rows) == 3
    assert sum("| database |" in row for row in rows) == 2
    assert "4 tasks" in text
