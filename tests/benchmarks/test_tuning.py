from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ascertain.contracts.claim import Busy, Granted
from ascertain.ledger.postgres import open_ledger
from benchmarks import report
from benchmarks.coalesced import Coalesced
from benchmarks.lever import AS_IT_IS, LEVERS
from tests.ledger.steps import request

ROOT = Path(__file__).parents[2]
TOGETHER = "claims that meet go in one statement"
ONE_PARTITION = "one partition of each task queue"


@pytest.fixture
async def ledger(database):
    opened = await open_ledger(database, connections=1)
    yield opened
    await opened.aclose()


def tuning(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks",
            "tuning",
            "--rounds",
            "1",
            "--load",
            "2:3",
            *arguments,
        ],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def test_what_is_set_otherwise_is_told_as_ratios_to_the_worker_as_it_is():
    done = tuning("--json", "--lever", TOGETHER, "--lever", ONE_PARTITION)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["command"] == (
        f"./run bench tuning --rounds 1 --load 2:3 --lever '{TOGETHER}' --lever '{ONE_PARTITION}'"
    )
    assert set(found["tuning"]) == {TOGETHER, ONE_PARTITION}
    for loads in found["tuning"].values():
        assert set(loads) == {"in_flight_2", "stream"}
        assert all(figures["worker_cpu"]["median"] > 0 for figures in loads.values())
    rows = [line for line in report.as_markdown(found).splitlines() if line.startswith("| claims")]
    assert len(rows) == 2


@pytest.mark.parametrize("name", ["more of everything", AS_IT_IS])
def test_a_lever_that_is_none_is_refused_with_those_there_are(name):
    done = tuning("--lever", name)
    assert done.returncode == 2
    assert all(lever.split()[0] in done.stderr for lever in LEVERS if lever != AS_IT_IS)


async def test_claims_that_meet_get_the_answer_that_each_would_have_got_alone(ledger):
    first = await ledger.claim(request("stands"))
    assert isinstance(first, Granted)
    together = Coalesced(ledger)
    asked = [request(name, owner="another") for name in ("one", "stands", "two")]
    answers = await asyncio.gather(*map(together.claim, asked))
    assert [type(answer) for answer in answers] == [Granted, Busy, Granted]
