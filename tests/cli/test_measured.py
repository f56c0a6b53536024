"""What was measured, on paper: the ledger's metrics, and what is advised for a kind from how much."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ascertain.cli.advise import ENOUGH, LEASE_MAX, advise
from ascertain.contracts.task import Task
from ascertain.ports import Measured, Spread
from tests.core.rows import kind

S = timedelta(seconds=1)
NOTHING = Spread()


def spread(longest: timedelta, count: int = ENOUGH) -> Spread:
    return Spread(count, longest / 4, longest / 2, longest, longest)


def measured(**changes) -> Measured:
    fields = {"effects": ENOUGH, "attempts": NOTHING, "lateness": NOTHING, "stood": NOTHING}
    return Measured("toy.fact", **{**fields, **changes})


@pytest.fixture
def declared():
    return kind(max_duration=2 * S, in_flight_max=30 * S, lag=10 * S)


def test_haste_so_far_lowers_nothing_that_is_declared(declared):
    fast = spread(S / 1000)
    told = advise(measured(attempts=fast, lateness=fast, stood=fast), declared)
    assert told.lease == declared.policy.lease
    assert told.horizon == 40 * S
    assert told.alert == declared.policy.lease + 42 * S + declared.policy.ask_cap
    assert told.reasons == ()
    assert told.enough


def test_a_slow_call_asks_for_a_longer_lease_and_the_longest_that_there_is_bounds_it(declared):
    slow = advise(measured(attempts=spread(4 * S)), declared)
    assert slow.lease == 8 * S
    assert "may still be sending" in slow.reasons[0]
    assert advise(measured(attempts=spread(50 * S)), declared).lease == LEASE_MAX


def test_long_work_keeps_its_short_lease_unless_permits_ran_out_before_a_call_left():
    long = kind(max_duration=3600 * S)
    assert advise(measured(attempts=spread(900 * S)), long).lease == long.policy.lease
    lost = advise(measured(attempts=spread(900 * S), unsent=3), long)
    assert lost.lease == 2 * long.policy.lease
    assert lost.reasons == ("3 permits ran out before a call left",)


def test_a_fact_that_was_taken_for_proven_absent_asks_for_a_later_horizon(declared):
    late = advise(measured(lateness=spread(300 * S)), declared)
    assert late.horizon == 40 * S
    denied = advise(measured(denied=90 * S), declared)
    assert denied.horizon == 180 * S
    assert "taken for proven absent" in denied.reasons[0]
    assert advise(measured(denied=5 * S), declared).horizon == 40 * S


def test_an_alert_that_one_effect_in_a_thousand_would_raise_is_set_later(declared):
    told = advise(measured(stood=spread(1000 * S)), declared)
    assert told.alert == 3000 * S
    assert "stands longer than is declared" in told.reasons[0]


def test_few_attempts_are_told_as_few(declared):
    few = spread(S, ENOUGH - 1)
    assert not advise(measured(attempts=few), declared).enough


async def test_the_command_advises_for_every_kind_and_says_from_how_much(deployed):
    task_id = deployed.new_id()
    task = Task(**deployed.task(task_id))
    await deployed.client.submit(task)
    await deployed.cli("result", task_id, "--within", "100s")
    told = (await deployed.cli("advise", "--json")).document["kinds"]
    assert [one["kind"] for one in told] == sorted(one["kind"] for one in told)
    # Others were at work in this ledger too.
    (toy,) = [one for one in told if one["kind"] == task.steps[0].kind]
    assert toy["effects"] >= 1
    assert toy["measured"]["attempts"]["count"] >= 1
    assert toy["enough"] is False
    for one in told:
        for name, value in one["declared"].items():
            assert one["advised"][name] >= value
    said = await deployed.cli("advise", "--samples", "1")
    assert toy["kind"] in said.out
    assert f"few: of fewer than {ENOUGH} attempts" in said.out


async def test_the_metrics_of_the_ledger_are_printed_once_where_nobody_is_to_fetch_them(deployed):
    await deployed.cli("pause", "metrics-a", "--reason", "test", "--operator", "grace")
    told = (await deployed.cli("metrics", "--json")).document["metrics"]
    assert {"name": "ascertain_ledger_up", "labels": {}, "value": 1} in told
    labels = {"partition": "metrics-a", "state": "paused"}
    assert {"name": "ascertain_gate_state", "labels": labels, "value": 1} in told
    said = await deployed.cli("metrics")
    assert "partition=metrics-a" in said.out
    await deployed.cli("resume", "metrics-a", "--reason", "test", "--operator", "grace")


async def test_a_ledger_that_does_not_answer_is_told_and_not_printed_as_empty(cli):
    answer = await cli("metrics", code=6, ASCERTAIN_LEDGER_URL="postgresql://127.0.0.1:9/x")
    assert "does not answer" in answer.sentence
