"""Every adapter that comes with Ascertain passes its own kit, at a real counterpart."""

from __future__ import annotations

import pytest

from ascertain.testing.conformance import conform
from tests.conform import trials

# Processes of its own and dozens of attempts: a busy machine needs its time.
pytestmark = pytest.mark.timeout(600)


def passed(report):
    assert report.ok, report.text()
    tried = {line.name for line in report.lines if line.result == "held"}
    assert {"settle", "permit", "flood", "process", "event_loop", "secrets"} <= tried
    return tried


async def test_an_adapter_that_sends_batches_and_lists_passes():
    tried = passed(await conform(trials.http_in_batches))
    assert {"batch", "batch_permit", "batch_parts", "batch_lost"} <= tried
    assert {"listing", "listing_end", "listing_down", "max_duration", "in_flight"} <= tried


@pytest.mark.parametrize("name", ["http", "stripe", "s3"])
async def test_an_adapter_that_can_be_asked_over_http_passes(name):
    tried = passed(await conform(getattr(trials, name)))
    assert {
        "one_request",
        "redirect",
        "lost_answer",
        "lookup_down",
        "killed",
        "odd_answer",
    } <= tried


async def test_generation_passes(tmp_path):
    tried = passed(await conform(trials.generate(tmp_path)))
    assert {"one_request", "lost_answer", "bare_success", "lookup_finds"} <= tried


async def test_a_webhook_passes_without_a_lookup():
    tried = passed(await conform(trials.webhook))
    assert {"one_request", "redirect", "lost_answer", "gateway", "odd_answer", "killed"} <= tried


async def test_mail_passes_where_its_end_tells_what_is_known():
    tried = passed(await conform(trials.smtp))
    assert {"one_request", "unreachable", "lost_answer", "silence", "killed"} <= tried


async def test_a_change_of_rows_passes(database):
    tried = passed(await conform(trials.sql(database)))
    assert {"lost_answer", "lookup_finds", "lookup_down", "lookup_differs", "killed"} <= tried


@pytest.mark.parametrize("name", ["folder", "command"])
async def test_what_makes_files_passes(name, tmp_path):
    tried = passed(await conform(getattr(trials, name)(tmp_path)))
    assert {"lookup_finds", "lookup_absent", "killed"} <= tried


async def test_a_computation_passes():
    passed(await conform(trials.compute()))
