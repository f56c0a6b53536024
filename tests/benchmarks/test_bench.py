from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import report

ROOT = Path(__file__).parents[2]
SIDES = {"ascertain", "eager", "stream", "bare", "call", "call2"}
FIGURES = {"tasks", "tasks_per_s", "p50_ms", "p95_ms", "cpu_ms", "cpu_parts_ms"}
RATIOS = {"tasks_per_s", "p50_ms", "p95_ms", "cpu_ms"}
TINY = ("--rounds", "1", "--load", "1:2", "--load", "3:6")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(scope="session", params=["memory", "file"])
def measured(request) -> dict:
    """A tiny run of everything, on either kind of server."""
    done = bench("--server", request.param, "--json", *TINY)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["server"] == request.param
    return found


def test_every_side_is_measured_under_every_load(measured):
    assert set(measured["sides"]) == SIDES
    for side in measured["sides"].values():
        assert set(side["loads"]) == {"sequential", "in_flight_3"}
        for load in side["loads"].values():
            assert set(load) == FIGURES
            assert load["tasks_per_s"]["median"] > 0
            assert load["p50_ms"]["median"] <= load["p95_ms"]["median"]


def test_processor_time_is_told_for_each_part_that_a_side_has(measured):
    parts = {
        side: set(found["loads"]["sequential"]["cpu_parts_ms"])
        for side, found in measured["sides"].items()
    }
    assert parts == {
        "ascertain": {"client", "worker", "server", "database", "outside"},
        "eager": {"client", "server", "database", "outside"},
        "stream": {"client", "worker", "server", "database", "outside"},
        "bare": {"client", "worker", "server", "outside"},
        "call": {"client", "outside"},
        "call2": {"client", "database", "outside"},
    }
    for found in measured["sides"]["ascertain"]["loads"].values():
        assert all(spent > 0 for spent in found["cpu_parts_ms"].values())


def test_the_outside_is_left_out_of_what_a_task_costs(measured):
    found = measured["sides"]["ascertain"]["loads"]["sequential"]
    ours = sum(spent for part, spent in found["cpu_parts_ms"].items() if part != "outside")
    assert found["cpu_ms"]["median"] == pytest.approx(ours, rel=0.01)


def test_histories_and_statements_are_counted(measured):
    sides = measured["sides"]
    ours, bare = sides["ascertain"], sides["bare"]
    assert (ours["history_events"], bare["history_events"]) == (6, 11)
    assert sides["eager"]["history_events"] == 6
    assert ours["database"]["statements"] == 2
    assert sides["call2"]["database"]["statements"] == 2
    assert sides["stream"]["history_events"] < 1
    assert sides["stream"]["database"]["statements"] < 1
    assert ours["database"]["wal_bytes"] > 0
    assert ours["database"]["wal_syncs"] > 0
    assert bare["database"] is None


def test_ratios_and_aims_are_told_with_whether_they_are_met(measured):
    pairs = {"ascertain / bare": 7, "eager / bare": 7, "stream / bare": 3}
    assert set(measured["ratios"]) == set(measured["aims"]) == set(pairs)
    for pair, aims in pairs.items():
        for found in measured["ratios"][pair].values():
            assert set(found) == RATIOS
        for aim in measured["aims"][pair]:
            better = aim["measured"] >= aim["wanted"]
            assert aim["met"] is (better if aim["at_least"] else aim["measured"] <= aim["wanted"])
        assert len(measured["aims"][pair]) == aims


def test_the_machine_is_described_and_never_named(measured):
    assert measured["machine"]["cores"] >= 1
    assert {"processor", "kernel", "python", "architecture"} < set(measured["machine"])
    assert measured["versions"]["temporalio"]
    whole = json.dumps(measured)
    assert Path("/proc/sys/kernel/hostname").read_text().strip() not in whole
    assert str(ROOT) not in whole


def test_a_result_says_how_it_is_measured_again(measured):
    server = measured["server"]
    command = f"./run bench --server {server} --rounds 1 --load 1:2 --load 3:6"
    assert measured["command"] == command


def test_the_tables_show_every_side(measured, tmp_path):
    file = tmp_path / "result.json"
    file.write_text(json.dumps(measured))
    shown = bench("--from", str(file))
    assert shown.returncode == 0
    for side in SIDES:
        assert side in shown.stdout


def test_a_load_that_cannot_be_run_is_refused():
    refused = bench("--load", "ten")
    assert refused.returncode == 2
    assert "IN_FLIGHT:TASKS" in refused.stderr


def test_what_shares_its_costs_is_measured_over_many(measured):
    loads = {side: found["loads"]["in_flight_3"] for side, found in measured["sides"].items()}
    assert loads["bare"]["tasks"] == 6
    assert loads["stream"]["tasks"] == 120


def test_a_peer_is_measured_only_where_it_is_asked_for():
    refused = bench("--side", "dbos", *TINY)
    assert refused.returncode == 2
    assert "--peers" in refused.stderr


def test_the_page_shows_the_committed_results():
    page = (ROOT / "docs/explanation/performance.md").read_text()
    results = sorted((ROOT / "benchmarks/results").glob("*.json"))
    assert results
    for file in results:
        assert report.as_markdown(json.loads(file.read_text())) in page
