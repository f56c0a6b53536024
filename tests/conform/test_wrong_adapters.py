"""Adapters that are wrong in one way each fail the kit in that way, and in no other."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from ascertain.testing.conformance import Trial, conform
from ascertain.testing.conformance.kit import CHECKS
from ascertain.testing.knob import Dedupe, Knobs, LookupKnobs, Rule, SubmitKnobs
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
# The fact comes later than the answer to the request whose fact it is.
SLOW = Rule(submit=SubmitKnobs(commit=1.0))
PAGED = Knobs(dedupe=Dedupe(by="none"), lookup=LookupKnobs(page_size=2))
OF_BATCHES = ("batch", "batch_permit", "batch_parts", "batch_lost")
OF_LISTINGS = ("listing", "listing_end", "listing_down")
UNDECLARED = {"idempotent_for": None, "compares_bodies": False}


def trial(wrong, knobs=KEYED, semantics=None, rule=None, module="wrong", patience=PATIENCE):
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
                    "adapter": f"tests.conform.{module}:create",
                    "options": {**options, "base_url": url},
                    "semantics": {"in_flight_max": 1, **(semantics or {})},
                },
                secrets=lambda _: {"TOKEN": "tok_s3cret"},
                input=lambda number: {"text": f"letter {number}"},
                outside=outside.url,
                facts=facts,
                patience=patience,
            )

    return opened


def only(*names):
    """These checks, and what every one needs first."""
    return [check for check in CHECKS if check.name in {"settle", *names}]


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


async def test_an_adapter_that_may_take_longer_than_it_declares_fails():
    checks = only("silence", "max_duration")
    report = await conform(trial("Letters", semantics={"max_duration": 1}), checks=checks)
    assert report.failed == ("max_duration",), report.text()
    assert "declared 1 s, and an attempt that met silence was under way for" in report.text()


async def test_an_adapter_of_which_no_attempt_ends_in_time_fails():
    checks = only("max_duration")
    declared = {"max_duration": 0.3}
    report = await conform(trial("Letters", semantics=declared, rule=SLOW), checks=checks)
    assert report.failed == ("max_duration",), report.text()
    assert "declared 0.3 s, and even the quickest attempt took" in report.text()


async def test_an_outside_whose_requests_take_effect_later_than_is_declared_fails():
    declared, patience = {"in_flight_max": 0.05}, timedelta(seconds=10)
    late = trial("Letters", semantics=declared, rule=SLOW, patience=patience)
    report = await conform(late, checks=only("in_flight"))
    assert report.failed == ("in_flight",), report.text()
    assert report.measured.in_flight > timedelta(seconds=0.05)
    assert report.measured.unfit == ()


async def test_letters_in_bundles_with_a_list_of_many_pages_pass():
    report = await conform(trial("Bundles", PAGED, UNDECLARED, module="bundles"))
    assert report.ok, report.text()
    held = {line.name for line in report.lines if line.result == "held"}
    assert {*OF_BATCHES, *OF_LISTINGS} <= held, report.text()


@pytest.mark.parametrize(
    ("wrong", "fails", "why"),
    [
        ("OneForAll", "batch", "were settled with the same fact"),
        ("Separate", "batch", "one batch of 4 made 4 requests"),
        ("Missing", "batch", "gave 3 outcomes of 4 effects"),
        ("Uneven", "batch_permit", "left although the permit of one effect was refused"),
        ("Generous", "batch_parts", "does not mention came to settled"),
        ("Strict", "batch_parts", "came to ['refused (batch)'] for one of it"),
        ("Hopeless", "batch_lost", "only doubt is true"),
        ("FirstPage", "listing_end", "facts that were made are not listed"),
        ("Nameless", "listing", "and the list has ['letter/"),
        ("HalfList", "listing_down", "a part of a list proves nothing"),
    ],
)
async def test_a_wrong_batch_or_listing_fails_for_the_reason_that_it_is_wrong(wrong, fails, why):
    checks = only(fails)
    report = await conform(trial(wrong, PAGED, UNDECLARED, module="bundles"), checks=checks)
    assert report.failed == (fails,), report.text()
    assert why in report.text()
