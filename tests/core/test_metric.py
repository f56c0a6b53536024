"""What the ledger says as series, and that labels never become many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ascertain import metric
from ascertain.contracts.census import CensusReport, Discord
from ascertain.contracts.effect import State
from ascertain.contracts.gate import Gate
from ascertain.errors import InvalidSettings
from ascertain.exposition import split
from ascertain.metric import Few
from ascertain.ports import KeptCensus, Tally
from ascertain.reading import Reading, samples

MANY = 500


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metric, "_KINDS", Few())
    monkeypatch.setattr(metric, "_PARTITIONS", Few())


NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def gate(partition: str, *, paused: bool, **more: Any) -> Gate:
    return Gate(partition=partition, paused=paused, since=NOW, by="ada", reason="r", **more)


def told(reading: Reading | None) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by metric and by the values of its labels."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for sample in samples(reading):
        assert set(sample.labels) == set(sample.metric.labels)
        key = tuple(sample.labels[name] for name in sample.metric.labels)
        series = found.setdefault(sample.metric.shown, {})
        assert key not in series
        series[key] = sample.value
    return found


def test_the_first_names_keep_theirs_and_all_later_ones_share_one():
    few = Few(2)
    assert [few(name) for name in ("a", "b", "c", "a", "d", "b")] == [
        *("a", "b", "other", "a", "other", "b")
    ]


def test_thousands_of_partitions_are_a_bounded_number_of_series_and_none_of_them_is_lost():
    tallies = [
        Tally("pay", f"p{number}", State.QUARANTINED, 1, timedelta(seconds=number))
        for number in range(MANY)
    ]
    gates = [gate(f"p{number}", paused=number == MANY - 2) for number in range(MANY)]
    found = told(Reading(NOW, tallies, gates))
    effects = found["ascertain_effects"]
    assert len(effects) == metric.MOST_NAMES + 1
    assert sum(effects.values()) == MANY
    oldest = found["ascertain_stuck_task_age_seconds"][("pay", "other", "QUARANTINED")]
    assert oldest == MANY - 1
    assert found["ascertain_gate_state"]["other", "paused"] == 1
    assert found["ascertain_gate_state"]["other", "open"] == MANY - metric.MOST_NAMES - 1


def test_a_gate_is_shown_as_it_stands_and_as_nothing_else():
    probed = {"rule": "lag", "probes": 1, "probe_after": HOUR}
    gates = {
        "open": gate("a", paused=False, ramp_until=NOW + HOUR),
        "opening": gate("b", paused=False, ramp_until=NOW + 2 * HOUR),
        "half-open": gate("c", paused=True, probe_from=NOW + HOUR, **probed),
        "paused": gate("d", paused=True, probe_from=NOW + 2 * HOUR, **probed),
    }
    found = told(Reading(NOW + HOUR, gates=[*gates.values()]))
    assert found["ascertain_gate_state"] == {
        (gate.partition, state): state == stands
        for stands, gate in gates.items()
        for state in gates
    }


def test_a_census_is_shown_with_its_bound_its_age_and_a_nought_for_what_it_did_not_see():
    report = CensusReport(
        kind="pay",
        effects=50,
        duplicates=1,
        duplicate_effect_rate=0.02,
        duplicate_effect_rate_upper=0.1,
        count={Discord.DUPLICATE: 1},
    )
    found = told(Reading(NOW, censuses=[KeptCensus(report, HOUR)]))
    assert found["ascertain_duplicate_effect_rate"] == {("pay",): 0.02}
    assert found["ascertain_duplicate_effect_rate_upper"] == {("pay",): 0.1}
    assert found["ascertain_census_age_seconds"] == {("pay",): 3600}
    disagreed = found["ascertain_census_discrepancies"]
    assert disagreed == {("pay", each.value): each is Discord.DUPLICATE for each in Discord}


def test_a_census_of_nothing_shows_no_rate_and_that_anything_is_possible():
    report = CensusReport(kind="pay", duplicate_effect_rate_upper=1)
    found = told(Reading(NOW, censuses=[KeptCensus(report, timedelta(0))]))
    assert "ascertain_duplicate_effect_rate" not in found
    assert found["ascertain_duplicate_effect_rate_upper"] == {("pay",): 1}


def test_of_a_ledger_that_does_not_answer_nothing_is_shown_but_that():
    assert told(None) == {"ascertain_ledger_up": {(): 0}}
    assert told(Reading(NOW)) == {"ascertain_ledger_up": {(): 1}}


def test_every_metric_has_a_name_and_a_meaning_of_its_own():
    assert len({each.shown for each in metric.METRICS}) == len(metric.METRICS)
    assert all(each.meaning.endswith(".") for each in metric.METRICS)


@pytest.mark.parametrize("address", ["9464", "127.0.0.1:0", "127.0.0.1:x", ":9464", "h:65536", ""])
def test_what_names_no_host_and_port_is_no_address(address):
    with pytest.raises(InvalidSettings, match="is no address such as"):
        split(address)


def test_a_host_may_be_a_name_or_stand_in_brackets():
    assert split("localhost:9464") == ("localhost", 9464)
    assert split("[::1]:9464") == ("::1", 9464)
