"""Adapters that are wrong in one way each fail the kit in that way, and in no other."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from ascertain.testing.conformance import Trial, conform
from ascertain.testing.knob import Dedupe, Knobs, LookupKnobs, Rule
from ascertain.testing.outside import Outside

# Processes of its own and dozens of attempts: a busy machine needs its time.
pytestmark = pytest.mark.timeout(600)

# Longer than silence is waited for: a busy machine makes no attempt time out.
TIMEOUT_S = 10
PATIENCE = timedelta(seconds=0.4)
KEYED = Knobs(dedupe=Dedupe(by="key_and_body"))
KEYLESS = Knobs()
CARELESS = Knobs(dedupe=Dedupe(by="key"))
# By numbers and not by times, which a busy machine would shift.
FORGETFUL = Rule(attempt=6, dedupe=Dedupe(by="none"))
LATE = Rule(attempt=1, lookup=LookupKnobs(lag_s=3600))
UNDECLARED = {"idempotent_for": None, "compares_bodies": False}


def trial(wrong, knobs=KEYED, semantics=None, rule=None):
    @asynccontextmanager
    async def opened():
        async with Outside(knobs) as outside:
            if rule is not None:
                outside.rules.add(rule)

            async def facts(effect_id):
                return len(outside.books.facts_of(effect_id))

            options = {"token": "secret:TOKEN", "timeout": TIMEOUT_S, "wrong": wrong}
            yield Trial(
                kind=lambda url: {
                    "adapter": "tests.conform.wrong:create",
                    "options": {**options, "base_url": url},
                    "semantics": {"in_flight_max": 1, **(semantics or {})},
                },
                secrets=lambda _: {"TOKEN": "tok_s3cret"},
                input=lambda number: {"text": f"letter {number}"},
                outside=outside.url,
                facts=facts,
                patience=PATIENCE,
            )

    return opened


@pytest.mark.parametrize(
    ("wrong", "fails", "why"),
    [
        ("Repeats", {"one_request"}, "makes 2 requests"),
        ("Redirected", {"redirect"}, "was followed"),
        ("NeverLeft", {"lost_request", "lost_answer"}, "came to not_done"),
        ("Believes", {"bare_success"}, "200 with an empty body came to settled"),
        ("GivesUp", {"gateway"}, "504 came to refused"),
        ("Unpermitted", {"permit"}, "was called 0 times"),
        ("Blocks", {"event_loop"}, "in Blocks.perform"),
        ("Exits", {"process"}, "ended its process with exit code 70"),
        ("Overreads", {"odd_answer"}, "was read whole"),
        ("Tells", {"secrets"}, "said a secret"),
        ("Denies", {"lookup_down"}, "was taken for absent"),
        ("Uncompared", {"lookup_differs"}, "the lookup says found"),
        ("Asks", {"prepare"}, "it must do no I/O"),
        ("Optimist", {"unreachable"}, "refuses connections came to settled"),
        ("Patient", {"throttle"}, "clip it"),
        ("Mixes", {"flood"}, "settled without a fact"),
        ("Remembers", {"killed"}, "is not found; the last answer: absent"),
        ("Renames", {"lookup_finds"}, "the attempt settled with"),
        ("Causes", {"lookup_absent"}, "what was never sent came to found"),
    ],
)
async def test_a_wrong_adapter_fails_for_the_reason_that_it_is_wrong(wrong, fails, why):
    report = await conform(trial(wrong))
    assert set(report.failed) == fails, report.text()
    assert why in report.text()


async def test_an_adapter_that_takes_the_first_of_several_fails():
    report = await conform(trial("First", KEYLESS, UNDECLARED))
    assert report.failed == ("lookup_several",), report.text()


@pytest.mark.parametrize(
    ("knobs", "rule", "fails"),
    [
        (KEYLESS, None, {"key", "compares_bodies"}),
        (KEYED, FORGETFUL, {"key_life"}),
        (CARELESS, None, {"compares_bodies"}),
        (KEYED, LATE, {"lookup_lag"}),
    ],
)
async def test_an_adapter_that_declares_more_than_was_measured_fails(knobs, rule, fails):
    report = await conform(trial("Letters", knobs, rule=rule))
    assert set(report.failed) == fails, report.text()
