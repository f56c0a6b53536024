"""The demonstration as a person starts it, in its small form."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
KEYS = [
    *("tasks", "facts", "duplicates", "lost", "refused", "reconciled", "fenced", "quarantined"),
    *("seconds", "ok"),
]
WITHIN_S = 220


def working_in(directory: Path) -> set[int]:
    """The living processes whose working directory is below this one."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            if state != "Z" and (entry / "cwd").readlink().is_relative_to(directory):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


@dataclass
class Demo:
    """One run of the command, whose folder lies below ``directory``."""

    directory: Path
    process: asyncio.subprocess.Process
    told: list[str] = field(default_factory=list)

    async def listen(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.told.append(line.decode())

    async def end(self) -> list[str]:
        """Wait for its end; gives the lines of its standard output."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            printed, _ = await asyncio.gather(self.process.stdout.read(), self.listen())
            await self.process.wait()
        return printed.decode().splitlines()


@dataclass
class Ended:
    exit_code: int
    printed: list[str]
    told: str
    left_running: set[int]
    left_behind: list[Path]

    @property
    def figures(self) -> dict[str, object]:
        return json.loads(self.printed[-1])


def open_directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="ascertain-demo-test-"))
    directory.chmod(0o711)  # as root, PostgreSQL's user must pass
    return directory


async def start(*words: str) -> Demo:
    directory = open_directory()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ascertain", "demo", *words),
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(directory)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    return Demo(directory, process)


async def run(*words: str) -> Ended:
    demo = await start(*words)
    try:
        printed = await demo.end()
        code = demo.process.returncode
        assert code is not None
        return Ended(
            code,
            printed,
            "".join(demo.told),
            working_in(demo.directory),
            sorted(demo.directory.rglob("*.log")),
        )
    finally:
        if demo.process.returncode is None:
            demo.process.kill()
            await demo.process.wait()
        shutil.rmtree(demo.directory)


@pytest.fixture(scope="module")
async def runs() -> tuple[Ended, Ended]:
    """With and without Ascertain, at the same time, for both mostly wait."""
    async with asyncio.TaskGroup() as group:
        guarded = group.create_task(run("--tasks", "24", "--json"))
        naive = group.create_task(run("--tasks", "12", "--naive", "--json"))
    return guarded.result(), naive.result()


async def test_a_killed_and_a_frozen_worker_and_lost_answers_leave_exactly_the_facts_asked_for(
    runs,
):
    guarded, _ = runs
    figures = guarded.figures
    assert guarded.exit_code == 0, guarded.told
    assert figures["ok"] is True
    assert (figures["tasks"], figures["refused"]) == (24, 2)
    # 24 tasks: 22 paid, one of them a deposit that was taken back; two cards declined.
    assert figures["facts"] == 24
    assert (figures["duplicates"], figures["lost"], figures["quarantined"]) == (0, 0, 0)
    assert figures["reconciled"] >= 4
    assert figures["fenced"] >= 1


async def test_the_faults_really_strike(runs):
    for ended in runs:
        # Worker a, if it by chance gets one of the tasks to be struck at.
        killed = re.search(r"worker ([ab]) killed \(SIGKILL\)", ended.told)
        assert killed, ended.told
        assert f"worker {killed[1]} has a successor" in ended.told
    # Of the few tasks without protection, the other may by chance get none that it could be frozen in.
    guarded, _ = runs
    frozen = re.search(r"worker ([ab]) frozen \(SIGSTOP\)", guarded.told)
    assert frozen, guarded.told
    assert f"worker {frozen[1]} thawed" in guarded.told


async def test_the_same_faults_make_duplicates_without_ascertain(runs):
    _, naive = runs
    assert naive.exit_code == 1
    assert naive.figures["ok"] is False
    assert naive.figures["duplicates"] >= 1
    assert "facts of one effect" in naive.told


async def test_standard_output_is_one_line_of_json_with_exactly_the_promised_keys(runs):
    for ended in runs:
        assert len(ended.printed) == 1
        assert list(ended.figures) == KEYS


async def test_nothing_is_left_of_a_run_that_went_well_and_the_logs_of_one_that_did_not(runs):
    guarded, naive = runs
    assert guarded.left_running == naive.left_running == set()
    assert guarded.left_behind == []
    assert {log.name for log in naive.left_behind} >= {"server.log", "worker-a.log", "worker-b.log"}
    assert str(naive.left_behind[0].parents[1]) in naive.told


async def test_ctrl_c_ends_a_run_that_is_under_way_and_leaves_nothing():
    demo = await start("--tasks", "8")
    listening = asyncio.create_task(demo.listen())
    try:
        await wait_until(lambda: any("killed (SIGKILL)" in line for line in demo.told), 120)
        assert working_in(demo.directory)
        demo.process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(demo.process.wait(), 80) == 130
        assert working_in(demo.directory) == set()
        assert list(demo.directory.iterdir()) == []
    finally:
        if demo.process.returncode is None:
            demo.process.kill()
            await demo.process.wait()
        await listening
        shutil.rmtree(demo.directory)
