"""What an answer proves, for every status there is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING

import httpx
import pytest
from pydantic import ValidationError

from ascertain.adapters.judgement import Meaning, judge, meaning_of
from ascertain.adapters.sending import Phase
from ascertain.adapters.throttle import Throttle
from ascertain.adapters.wire import Exchange
from ascertain.contracts import outcome
from ascertain.contracts.effect import Receipt
from ascertain.errors import PermitLost

if TYPE_CHECKING:
    from ascertain.contracts.outcome import Outcome

NOW = datetime(2026, 4, 1, 12, 0, tzinfo=UTC)
ALL = range(100, 600)

REFUSED = set(range(400, 500)) - {401, 407, 408, 409, 412, 422, 425, 429, 499}
BY_MEANING = {
    Meaning.PROOF: set(range(200, 300)) - {202},
    Meaning.ACCEPTED: {202},
    Meaning.REFUSED: REFUSED,
    Meaning.REFUSED_BEFORE_WORK: {401, 407},
    Meaning.UNKNOWN: {*range(100, 200), *range(300, 400), 408, 425, 429, 499, *range(500, 600)},
    Meaning.EXISTS: {409, 412, 422},
    Meaning.IN_PROGRESS: set(),
    Meaning.KEY_REUSED: set(),
}


@dataclass
class GivenReading:
    """Reads every answer as the test says."""

    means: Meaning
    receipt: Receipt | None = None
    why: str = ""

    def meaning(self, exchange: Exchange) -> Meaning:
        return self.means

    def proof(self, exchange: Exchange) -> Receipt | None:
        return self.receipt

    def job_id(self, exchange: Exchange) -> str:
        return "job-1"

    def reason(self, exchange: Exchange) -> str:
        return self.why


def answered(status: int, *, truncated: bool = False, **headers: str) -> Exchange:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Exchange(
        phase=Phase.ANSWERED,
        status=status,
        headers=httpx.Headers(named),
        body=b"{}",
        truncated=truncated,
        sha256="0" * 64,
    )


def judged(exchange: Exchange, reading: GivenReading, who: str = "ef1-a:1") -> Outcome:
    return judge(exchange, reading, Throttle(), who=who, now=NOW)


def test_no_status_is_forgotten_and_none_is_in_two_classes():
    spread = [(status, meaning) for meaning, them in BY_MEANING.items() for status in them]
    assert sorted(status for status, _ in spread) == list(ALL)
    assert {meaning_of(status) for status in ALL} <= set(BY_MEANING)
    for status, meaning in spread:
        assert meaning_of(status) is meaning, status


def test_a_status_that_is_none_is_unknown():
    assert {meaning_of(status) for status in (0, 99, 600, 999)} == {Meaning.UNKNOWN}


@pytest.mark.parametrize("meaning", Meaning)
def test_every_meaning_comes_to_an_outcome(meaning: Meaning):
    came_to = judged(answered(200), GivenReading(meaning))
    kinds = {
        Meaning.PROOF: outcome.Unknown,
        Meaning.ACCEPTED: outcome.Accepted,
        Meaning.REFUSED: outcome.Refused,
        Meaning.REFUSED_BEFORE_WORK: outcome.NotDone,
        Meaning.UNKNOWN: outcome.Unknown,
        Meaning.IN_PROGRESS: outcome.Unknown,
        Meaning.EXISTS: outcome.Unknown,
        Meaning.KEY_REUSED: outcome.Unknown,
    }
    assert type(came_to) is kinds[meaning]
    assert came_to.evidence.source == "answer"
    assert came_to.evidence.body["status"] == 200


def test_a_proof_settles():
    receipt = Receipt(external_id="fact-1")
    came_to = judged(answered(201), GivenReading(Meaning.PROOF, receipt))
    assert isinstance(came_to, outcome.Settled)
    assert came_to.receipt == receipt


def test_a_success_status_without_proof_is_unknown_and_says_so():
    came_to = judged(answered(200), GivenReading(Meaning.PROOF))
    assert isinstance(came_to, outcome.Unknown)
    assert came_to.error_class == "success_without_proof"
    assert came_to.evidence.detail == "success status without proof (HTTP 200)"


def test_a_shortened_reply_is_named_as_the_reason_for_the_missing_proof():
    came_to = judged(answered(200, truncated=True), GivenReading(Meaning.PROOF))
    assert "reply shortened" in came_to.evidence.detail
    assert came_to.evidence.body["truncated"] is True


@pytest.mark.parametrize("status", [408, 499, 502, 503, 504])
def test_a_gateway_that_gave_up_says_that_the_work_may_go_on(status: int):
    came_to = judged(answered(status), GivenReading(Meaning.UNKNOWN))
    assert isinstance(came_to, outcome.Unknown)
    assert came_to.error_class == f"http_{status}"
    assert "gateway gave up; the work may still be running" in came_to.evidence.detail


@pytest.mark.parametrize(
    ("meaning", "words"),
    [
        (Meaning.IN_PROGRESS, "our own earlier attempt is still open"),
        (Meaning.EXISTS, "look up and compare"),
        (Meaning.KEY_REUSED, "provider holds a different request under this key"),
    ],
)
def test_a_person_reads_what_kind_of_unknown_it_is(meaning: Meaning, words: str):
    came_to = judged(answered(409), GivenReading(meaning))
    assert words in came_to.evidence.detail
    assert came_to.error_class == meaning.value


def test_a_redirect_says_that_it_was_not_followed():
    came_to = judged(answered(303), GivenReading(meaning_of(303)))
    assert isinstance(came_to, outcome.Unknown)
    assert "redirected and not followed" in came_to.evidence.detail


@pytest.mark.parametrize(
    ("why", "error_class"),
    [("card_declined", "card_declined"), ("Your card was declined.", "http_402"), ("", "http_402")],
)
def test_a_refusal_is_classed_by_the_outsides_own_word(why: str, error_class: str):
    came_to = judged(answered(402), GivenReading(Meaning.REFUSED, why=why))
    assert isinstance(came_to, outcome.Refused)
    assert came_to.error_class == error_class
    assert why in came_to.evidence.detail


def test_a_long_reason_is_cut():
    came_to = judged(answered(402), GivenReading(Meaning.REFUSED, why="x" * 3_000_000))
    assert len(came_to.evidence.model_dump_json()) < 2000


def test_what_never_left_is_not_done():
    never = Exchange(
        phase=Phase.NEVER_LEFT, error_class="connection_refused", detail="never left us"
    )
    came_to = judged(never, GivenReading(Meaning.PROOF))
    assert isinstance(came_to, outcome.NotDone)
    assert (came_to.error_class, came_to.evidence.source) == ("connection_refused", "phase")
    assert came_to.retry_after is None


def test_what_left_without_an_answer_is_unknown():
    left = Exchange(phase=Phase.LEFT, error_class="silence", detail="left, no answer")
    came_to = judged(left, GivenReading(Meaning.PROOF, Receipt(external_id="x")))
    assert isinstance(came_to, outcome.Unknown)
    assert (came_to.error_class, came_to.evidence.source) == ("silence", "phase")


def test_a_refused_permit_passes_on():
    lost = PermitLost("fenced")
    exchange = Exchange(phase=Phase.NEVER_LEFT, error_class="permit_refused", refusal=lost)
    with pytest.raises(PermitLost) as caught:
        judged(exchange, GivenReading(Meaning.PROOF))
    assert caught.value is lost


ODD_WAITS = {
    "negative": "-5",
    "fractional": "0.493",
    "past": format_datetime(NOW - timedelta(days=1), usegmt=True),
    "absurd": "999999",
    "endless": "inf",
    "none": "nan",
    "word": "soon",
    "empty": "",
    "digits": "9" * 5000,
    "no such date": "Wed, 99 Foo 2026 25:61:61 GMT",
}


@pytest.mark.parametrize("written", [*ODD_WAITS, "missing"])
def test_an_odd_wait_is_clipped_to_floor_and_cap(written: str):
    headers = {} if written == "missing" else {"retry_after": ODD_WAITS[written]}
    came_to = judged(answered(429, **headers), GivenReading(Meaning.REFUSED_BEFORE_WORK))
    assert isinstance(came_to, outcome.NotDone)
    assert came_to.error_class == "throttled"
    assert "slowed by provider" in came_to.evidence.detail
    assert came_to.retry_after is not None
    assert timedelta(seconds=1) <= came_to.retry_after <= timedelta(minutes=5)
    long = written in {"absurd", "endless", "digits"}
    assert (came_to.retry_after > timedelta(minutes=3)) == long
    assert (came_to.retry_after < timedelta(seconds=2)) != long


@pytest.mark.parametrize("as_date", [True, False])
def test_a_sensible_wait_is_kept_and_never_shortened(as_date: bool):
    asked = format_datetime(NOW + timedelta(seconds=30), usegmt=True) if as_date else "30"
    wait = Throttle().wait(asked, now=NOW, who="ef1-a:1")
    assert timedelta(seconds=30) <= wait <= timedelta(seconds=37.5)


def test_fifty_that_are_sent_away_together_do_not_come_back_together():
    waits = {Throttle().wait("20", now=NOW, who=f"ef1-{n}:1") for n in range(50)}
    assert len(waits) == 50
    assert max(waits) - min(waits) > timedelta(seconds=2)


def test_the_same_effect_and_attempt_wait_the_same():
    first, again = (Throttle().wait("20", now=NOW, who="ef1-a:1") for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    "limits",
    [
        {"floor": timedelta(0)},
        {"floor": timedelta(seconds=-1)},
        {"floor": timedelta(seconds=10), "cap": timedelta(seconds=10)},
    ],
)
def test_limits_out_of_order_are_refused(limits: dict[str, timedelta]):
    with pytest.raises(ValidationError, match="floor"):
        Throttle(**limits)
