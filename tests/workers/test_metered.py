"""What a worker counts of the ledger's answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from prometheus_client import CollectorRegistry

from ascertain.contracts.claim import Granted, Stale
from ascertain.contracts.effect import State
from ascertain.ledger.model import ModelLedger
from ascertain.machine import Move
from ascertain.ports import Ledger
from tests.ledger.steps import LEASE, effect, moved, receipt, request, settled, unknown, verdict
from workers.metered import metered

_numbers = count(1)


class Clock:
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kind() -> str:
    """Of this test alone, so that its counts are."""
    return f"kind.{next(_numbers)}"


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return metered(ModelLedger(clock))


@pytest.fixture
def value(registry: CollectorRegistry, kind: str) -> Callable[..., float | None]:
    def read(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"kind": kind, **labels})

    return read


def asked(kind: str, name: str = "1", **changes: object):
    return request(name, effect=effect(name, kind=kind), **changes)


async def test_a_claim_is_counted_by_its_answer(ledger, kind, value):
    await ledger.claim(asked(kind))
    await ledger.claim(asked(kind, owner="another"))
    chunk = [asked(kind, name, owner="a third") for name in ("2", "1")]
    await ledger.claim_many(chunk)
    counted = {
        answer: value("ascertain_claims_total", partition="p", answer=answer)
        for answer in ("granted", "busy", "unanswered")
    }
    assert counted == {"granted": 2, "busy": 1, "unanswered": 1}


async def test_an_answer_of_two_words_is_told_in_two_words(ledger, kind, value):
    granted = await ledger.claim(asked(kind))
    assert isinstance(granted, Granted)
    row = await moved(ledger.record(granted.lease, unknown()))
    taken = verdict(State.TAKEN_OVER)
    await moved(ledger.decide(row.effect_id, row.version, Move.TAKE, taken, "ada"))
    await ledger.claim(asked(kind))
    assert value("ascertain_claims_total", partition="p", answer="taken_over") == 1


async def test_a_write_that_came_too_late_is_a_fenced_write_and_the_first_is_a_rise_from_nought(
    ledger, clock, kind, value
):
    granted = await ledger.claim(asked(kind))
    assert isinstance(granted, Granted)
    await moved(ledger.renew(granted.lease, LEASE))
    assert value("ascertain_fenced_writes_total", partition="p") == 0
    clock.now += 3 * LEASE
    await ledger.claim(asked(kind, owner="another"))
    assert isinstance(await ledger.record(granted.lease, settled()), Stale)
    assert isinstance(await ledger.renew(granted.lease, LEASE), Stale)
    assert value("ascertain_fenced_writes_total", partition="p") == 2


@pytest.mark.parametrize("ago_s", [40, -40])
async def test_what_asking_settles_is_timed_from_when_it_happened_outside(
    ledger, clock, kind, value, ago_s
):
    """A clock outside that is ahead of ours makes no negative time."""
    granted = await ledger.claim(asked(kind))
    assert isinstance(granted, Granted)
    row = await moved(ledger.record(granted.lease, unknown()))
    happened = receipt(happened_at=clock.now - timedelta(seconds=ago_s))
    found = verdict(State.SETTLED, receipt=happened)
    await moved(ledger.converge(row.effect_id, row.version, found, "reconcile"))
    assert value("ascertain_reconciliation_lag_seconds_count") == 1
    assert value("ascertain_reconciliation_lag_seconds_sum") == max(ago_s, 0)


async def test_without_the_outside_s_own_time_the_first_send_counts(ledger, clock, kind, value):
    granted = await ledger.claim(asked(kind))
    assert isinstance(granted, Granted)
    row = await moved(ledger.record(granted.lease, unknown()))
    clock.now += timedelta(seconds=7)
    found = verdict(State.SETTLED, receipt=receipt())
    await moved(ledger.converge(row.effect_id, row.version, found, "reconcile"))
    assert value("ascertain_reconciliation_lag_seconds_sum") == 7


async def test_what_is_settled_without_asking_or_is_not_settled_has_no_lag(ledger, kind, value):
    granted = await ledger.claim(asked(kind))
    assert isinstance(granted, Granted)
    await moved(ledger.record(granted.lease, settled()))
    other = await ledger.claim(asked(kind, "2"))
    assert isinstance(other, Granted)
    row = await moved(ledger.record(other.lease, unknown()))
    await moved(
        ledger.converge(row.effect_id, row.version, verdict(State.QUARANTINED), "reconcile")
    )
    assert value("ascertain_reconciliation_lag_seconds_count") is None


async def test_everything_else_is_passed_on(ledger, kind):
    await ledger.claim(asked(kind))
    assert (await ledger.inspect("ef1-1")).row.kind == kind
