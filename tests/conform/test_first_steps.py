"""What an author meets first: an adapter that does not work yet, and promises that cost nothing to make."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ascertain.errors import InvalidSettings
from ascertain.testing.conformance import Trial, conform
from ascertain.testing.conformance.report import Result
from ascertain.testing.conformance.trial import find
from tests.conform.test_wrong_adapters import KEYLESS, UNDECLARED, trial

# Processes of its own and dozens of attempts: a busy machine needs its time.
pytestmark = pytest.mark.timeout(600)


def by_name(report):
    return {line.name: line for line in report.lines}


async def test_an_adapter_that_makes_facts_and_calls_itself_pure_fails():
    report = await conform(trial("Letters", semantics={"pure": True}))
    assert "settle" in report.failed
    assert "declared pure, and an attempt made 1 requests that make facts" in report.text()


async def test_where_a_plain_attempt_does_not_work_nothing_else_is_tried():
    def kind(url):
        options = {"token": "t", "wrong": "Letters", "base_url": url or "http://127.0.0.1:9"}
        return {"adapter": "tests.conform.wrong:create", "options": options}

    report = await conform(Trial(kind=kind, input=lambda number: {"text": f"letter {number}"}))
    lines = by_name(report)
    assert report.failed == ("settle",), report.text()
    assert "the trial names no outside, so `kind` must know the address itself" in report.text()
    assert lines["lookup_finds"].result is Result.NOT_TRIED
    assert "mend `settle` first" in lines["lookup_finds"].seen


async def test_what_is_not_declared_is_measured_and_not_said_to_hold():
    report = await conform(trial("Letters", KEYLESS, UNDECLARED))
    lines = by_name(report)
    assert report.ok, report.text()
    for name in ("key", "compares_bodies", "batch", "listing"):
        assert lines[name].result is Result.NOT_TRIED
    assert report.measured.key_honoured is False


def test_an_adapters_factory_is_no_trial_and_is_told_apart():
    with pytest.raises(InvalidSettings, match="takes arguments, as an adapter's factory does"):
        find("tests.conform.wrong:create")


def test_a_patience_that_is_no_length_of_time_is_refused_where_it_is_written():
    given = Trial(kind=lambda _: {}, input=lambda _: {})
    with pytest.raises(InvalidSettings, match="patience=12 must be a timedelta"):
        replace(given, patience=12)
    assert replace(given, patience=timedelta(seconds=12)).patience == timedelta(seconds=12)
