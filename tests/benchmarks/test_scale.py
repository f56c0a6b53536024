from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from ascertain.contracts.claim import Granted
from ascertain.ledger.postgres import PostgresLedger, open_ledger
from ascertain.ports import EffectFilter
from benchmarks.seed import seed
from tests.ledger.steps import granted, moved, request, settled

ROOT = Path(__file__).parents[2]
TIMED = {"claim", "settle", "sweep", "list", "partitions", "metrics", "one_task", "archive"}
SIZES = {"bytes_per_effect", "archived_bytes_per_effect"}
COUNTS = """
select count(*) as effects, count(distinct task_id) as tasks, count(distinct external_id) as facts,
    (select count(*) from ascertain.audit_events) as events
from ascertain.effects where state = 'SETTLED'
"""


@pytest.fixture
async def seeded(database: str) -> PostgresLedger:
    ledger = await open_ledger(database, connections=1)
    lease = await granted(ledger, "first")
    await moved(ledger.record(lease, settled("fact-first")))
    await seed(database, lease.effect_id, 1200)
    yield ledger
    await ledger.aclose()


async def test_seeded_effects_are_told_apart_and_have_their_trails(
    seeded: PostgresLedger, database: str
) -> None:
    connection = await asyncpg.connect(database)
    found = await connection.fetchrow(COUNTS)
    await connection.close()
    assert dict(found) == {"effects": 1201, "tasks": 1201, "facts": 1201, "events": 2402}


async def test_a_seeded_effect_is_settled_and_a_new_one_is_claimed_beside_it(
    seeded: PostgresLedger,
) -> None:
    (row,) = await seeded.effects(EffectFilter(task_id="seed-7"))
    assert row.receipt is not None
    assert row.receipt.external_id == row.external_id == "seed-7"
    assert isinstance(await seeded.claim(request("new")), Granted)


def test_ledgers_of_different_size_are_measured_side_by_side() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks",
            "scale",
            "--rows",
            "300",
            "--effects",
            "3",
            "--quarantined",
            "70",
            "--json",
        ],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["command"] == "./run bench scale --rows 300 --effects 3 --quarantined 70"
    assert set(found["scale"]) == {"0", "300"}
    for told in found["scale"].values():
        assert set(told) == TIMED | SIZES
        assert told["archived_bytes_per_effect"] > 0
    assert set(found["quarantined"]) == {"effects", "one_page", "by_cause"}
    assert [aim["what"] for aim in found["aims"]["300 / 0"]] == ["claim p99"]
