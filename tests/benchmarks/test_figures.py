from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks import cpu, summary
from benchmarks.cpu import Part, Process
from benchmarks.measure import Batch, Measured
from benchmarks.plan import Contender, Load

SPIN = """
import subprocess, sys, time
def spin():
    while time.process_time() < 0.2: pass
def say_and_wait():
    sys.stdout.write("spun\\n"); sys.stdout.flush(); sys.stdin.read()
{program}
"""
SPUN = "spin(); say_and_wait()"
IN_CHILD = "subprocess.run([sys.executable, '-c', {program!r}])"


@contextmanager
def program(text: str) -> Iterator[Process]:
    """A process that has done its work and waits."""
    with subprocess.Popen(
        [sys.executable, "-c", SPIN.format(program=text)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "spun\n"
        yield Process(process.pid)
        process.stdin.close()


def alone(process: Process) -> float:
    return cpu.seconds(Process(process.pid, with_children=False))


def test_the_time_that_a_process_worked_is_seen():
    with program(SPUN) as process:
        assert cpu.seconds(process) >= 0.2


def test_the_time_of_a_child_that_has_ended_is_seen():
    child = SPIN.format(program="spin()")
    with program(IN_CHILD.format(program=child) + "; say_and_wait()") as process:
        assert cpu.seconds(process) >= alone(process) + 0.15


def test_the_time_of_a_living_child_is_seen():
    child = SPIN.format(program=SPUN)
    with program(IN_CHILD.format(program=child)) as process:
        assert cpu.seconds(process) >= alone(process) + 0.15


def batch(contender: Contender, latencies: list[float], wall: float, **cpu_s: float) -> Batch:
    parts = {Part(part): spent for part, spent in cpu_s.items()}
    return Batch(contender, Load(10, len(latencies)), tuple(latencies), wall, parts)


def test_p95_is_a_latency_that_a_task_had():
    hundred = [number / 1000 for number in range(1, 101)]
    found = summary.figures([batch(Contender.BARE, hundred, 1.0, worker=1.0)])
    assert found.p95_ms.median == pytest.approx(95)
    assert found.p50_ms.median == pytest.approx(50.5)


def test_figures_are_medians_of_the_rounds():
    rounds = [batch(Contender.BARE, [0.1] * 10, wall, worker=0.05) for wall in (1, 2, 5)]
    found = summary.figures(rounds)
    assert (found.tasks_per_s.min, found.tasks_per_s.median, found.tasks_per_s.max) == (2, 5, 10)
    assert found.cpu_parts_ms == {Part.WORKER: pytest.approx(5)}


def test_a_ratio_is_taken_within_its_round():
    ours = [batch(Contender.ASCERTAIN, [0.1], wall, worker=wall) for wall in (1, 10, 100)]
    theirs = [batch(Contender.BARE, [0.1], wall * 2, worker=wall) for wall in (1, 10, 100)]
    found = summary.ratios(ours, theirs)
    assert found.tasks_per_s == summary.Spread(2, 2, 2)
    assert found.cpu_ms == summary.Spread(1, 1, 1)


def test_what_shares_its_costs_is_told_per_effect():
    many = batch(Contender.STREAM, [1.0] * 200, 2, worker=0.4)
    found = summary.figures([many])
    assert found.tasks_per_s.median == 100
    assert found.cpu_ms.median == pytest.approx(2)
    one_by_one = batch(Contender.DBOS, [0.1] * 10, 1, client=0.1)
    ratio = summary.ratios([many], [one_by_one])
    assert ratio.tasks_per_s.median == pytest.approx(10)
    assert ratio.cpu_ms.median == pytest.approx(0.2)


def test_aims_compare_ascertain_with_plain_temporal():
    measured = Measured(
        idle={},
        batches=(
            batch(Contender.ASCERTAIN, [0.1] * 10, 1, worker=0.4, database=0.1, outside=9),
            batch(Contender.BARE, [0.1] * 10, 2, worker=1.0, outside=9),
        ),
        events={Contender.ASCERTAIN: 6, Contender.BARE: 12},
    )
    pair = (Contender.ASCERTAIN, Contender.BARE)
    found = {aim.what: aim for aim in summary.aims(measured, [Load(10, 10)], *pair)}
    assert {what: aim.measured for what, aim in found.items()} == {
        "history events": 0.5,
        "CPU, in_flight_10": pytest.approx(0.5),
        "throughput, in_flight_10": 2.0,
        "database's share of the CPU, in_flight_10": pytest.approx(0.2),
    }
    assert [aim.met for aim in found.values()] == [True, True, True, False]
