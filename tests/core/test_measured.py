"""What was measured takes off a declaration what was seen to be broken, and adds nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st

from ascertain.contracts.measured import OF_DECLARATION, Measured, limited
from ascertain.contracts.semantics import LookupBy, Semantics
from ascertain.testing.conformance.kit import CHECKS

NOW = datetime(2026, 1, 2, tzinfo=UTC)
DAY = Semantics(
    idempotent_for=timedelta(hours=24), compares_bodies=True, lookup=LookupBy.KEY, lag=timedelta(1)
)
LENGTHS = st.timedeltas(timedelta(0), timedelta(days=60))
SEMANTICS = st.builds(
    Semantics,
    idempotent_for=st.none() | LENGTHS,
    compares_bodies=st.booleans(),
    lookup=st.none() | st.sampled_from(LookupBy),
    lag=LENGTHS,
    in_flight_max=LENGTHS,
)
MEASURED = st.builds(
    Measured,
    kind=st.just("k"),
    adapter=st.just("a"),
    measured_at=st.just(NOW),
    failed=st.just(()),
    key_honoured=st.none() | st.booleans(),
    key_honoured_for=st.none() | LENGTHS,
    key_forgotten_after=st.none() | LENGTHS,
    compares_bodies=st.none() | st.booleans(),
    lookup_finds=st.none() | st.booleans(),
    lag=st.none() | LENGTHS,
    in_flight=st.none() | LENGTHS,
)


def measured(**seen) -> Measured:
    return Measured(kind="k", adapter="a", measured_at=NOW, **seen)


@given(SEMANTICS, MEASURED)
def test_nothing_that_was_measured_widens_what_was_declared(declared, seen):
    left = limited(declared, seen)
    zero = timedelta(0)
    assert (left.resend_for or zero) <= (declared.resend_for or zero)
    assert left.compares_bodies <= declared.compares_bodies
    assert left.lookup in {declared.lookup, None}
    assert left.lag >= declared.lag
    assert left.in_flight_max >= declared.in_flight_max
    kept = {"max_duration", "key_margin", "harmless", "pure"}
    assert left.model_dump(include=kept) == declared.model_dump(include=kept)


def test_what_was_not_seen_to_be_broken_stays_as_it_was_declared():
    kept = {"key_honoured": True, "key_honoured_for": timedelta(seconds=2), "lookup_finds": True}
    assert limited(DAY, measured(**kept, compares_bodies=True, lag=timedelta(0))) == DAY


def test_a_key_that_is_not_honoured_protects_nothing():
    assert limited(DAY, measured(key_honoured=False)).resend_for is None


def test_a_key_that_was_forgotten_protects_as_long_as_it_was_seen_to_be_honoured():
    seen = measured(
        key_honoured=True,
        key_honoured_for=timedelta(hours=2),
        key_forgotten_after=timedelta(hours=3),
    )
    assert limited(DAY, seen).idempotent_for == timedelta(hours=2)


def test_a_lookup_that_finds_nothing_is_none_and_a_late_one_is_as_late_as_was_seen():
    assert limited(DAY, measured(lookup_finds=False)).lookup is None
    assert limited(DAY, measured(lag=timedelta(days=2))).lag == timedelta(days=2)


def test_what_takes_effect_later_than_declared_is_waited_for_as_long_as_was_seen():
    late, early = timedelta(minutes=2), timedelta(0)
    assert limited(DAY, measured(in_flight=late)).in_flight_max == late
    assert limited(DAY, measured(in_flight=early)).in_flight_max == DAY.in_flight_max


def test_only_a_declaration_that_was_too_large_can_be_mended_by_a_smaller_one():
    assert measured(failed=("key", "lookup_lag")).unfit == ()
    assert measured(failed=("key", "one_request")).unfit == ("one_request",)
    assert {check.name for check in CHECKS} >= OF_DECLARATION
