"""Gates that open little by little: each effect waits for its turn, which its id decides."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from pydantic import ValidationError

from ascertain.contracts.breaker import Rule, Trip
from ascertain.contracts.claim import Granted, Paused
from ascertain.contracts.gate import Gate, GateChange, Position
from ascertain.ledger.gate import turn_of
from ascertain.ledger.postgres import PostgresLedger
from ascertain.ports import Ledger
from tests.ledger.conftest import T0, Clock
from tests.ledger.steps import LEASE, effect, granted, moved, not_done, request, standing

RAMP = timedelta(minutes=10)
NAMES = [str(number) for number in range(1, 9)]
# What a test calls an effect whose turn comes early, and one whose turn comes late.
EARLY, LATE = "7", "6"


def change(request_id: str, *, paused: bool, **changes: Any) -> GateChange:
    fields = {"partition": "p", "by": "ada", "reason": "incident", **changes}
    return GateChange(request_id=request_id, paused=paused, **fields)


async def opening(ledger: Ledger, partition: str = "p", ramp: timedelta = RAMP) -> Gate:
    """A gate that was closed, and begins to open now."""
    await ledger.set_gate(change(f"pause-{partition}", paused=True, partition=partition))
    return await ledger.set_gate(
        change(f"resume-{partition}", paused=False, partition=partition, ramp=ramp)
    )


def turn(name: str, gate: Gate) -> datetime:
    assert gate.ramp_until is not None
    return turn_of(f"ef1-{name}", gate.since, gate.ramp_until)


async def test_an_effect_is_let_through_at_its_turn_and_not_a_microsecond_sooner(
    either: Ledger, clock: Clock
) -> None:
    gate = await opening(either)
    for name in sorted(NAMES, key=lambda name: turn(name, gate)):
        await clock.set(turn(name, gate) - timedelta.resolution)
        told = await either.claim(request(name))
        assert isinstance(told, Paused)
        assert told.turn is not None
        assert (told.turn.at, told.turn.wait) == (turn(name, gate), timedelta.resolution)
        assert (told.turn.until, told.half_open) == (T0 + RAMP, False)
        await clock.advance(told.turn.wait)
        await granted(either, name)


async def test_as_much_is_let_through_as_of_the_ramp_is_over(either: Ledger, clock: Clock) -> None:
    gate = await opening(either)
    await clock.advance(0.3 * RAMP)
    told = [await either.claim(request(f"share-{number}")) for number in range(200)]
    assert 45 < sum(isinstance(answer, Granted) for answer in told) < 75
    assert gate.share(clock.now) == pytest.approx(0.3)
    waits = [answer.turn.wait for answer in told if isinstance(answer, Paused) and answer.turn]
    assert all(timedelta(0) < wait <= 0.7 * RAMP for wait in waits)


async def test_at_the_ramp_s_end_the_gate_is_open_for_all(either: Ledger, clock: Clock) -> None:
    gate = await opening(either)
    assert gate.position(clock.now) is Position.OPENING
    await clock.advance(RAMP)
    for name in NAMES:
        await granted(either, name)
    assert gate.position(clock.now) is Position.OPEN


async def test_what_had_its_turn_keeps_it(either: Ledger, clock: Clock) -> None:
    gate = await opening(either)
    await clock.set(turn(EARLY, gate))
    await moved(either.record(await granted(either, EARLY), not_done()))
    lease = await granted(either, EARLY)
    await moved(either.renew(lease, LEASE))
    assert isinstance(await either.claim(request(LATE)), Paused)


async def test_a_pause_closes_what_opens_and_a_fresh_ramp_begins_anew(
    either: Ledger, clock: Clock
) -> None:
    first = await opening(either)
    await clock.set(turn(LATE, first) - timedelta.resolution)
    closed = await either.set_gate(change("again", paused=True))
    assert (closed.paused, closed.since, closed.ramp_until) == (True, clock.now, None)
    told = await either.claim(request(EARLY))
    assert isinstance(told, Paused)
    assert told.turn is None
    fresh = await either.set_gate(change("anew", paused=False, ramp=RAMP))
    assert (fresh.since, fresh.ramp_until) == (clock.now, clock.now + RAMP)
    assert isinstance(await either.claim(request(EARLY)), Paused)
    await clock.set(turn(EARLY, fresh))
    await granted(either, EARLY)


async def test_of_two_ramps_the_newest_counts_and_a_resume_without_one_opens_for_all(
    either: Ledger, clock: Clock
) -> None:
    await opening(either)
    await clock.advance(0.5 * RAMP)
    slower = await either.set_gate(change("slower", paused=False, ramp=2 * RAMP, by="bob"))
    assert (slower.since, slower.by) == (clock.now, "bob")
    assert slower.share(clock.now) == 0
    assert isinstance(await either.claim(request(EARLY)), Paused)
    opened = await either.set_gate(change("all", paused=False))
    assert (opened.since, opened.ramp_until) == (clock.now, None)
    await granted(either, LATE)


async def test_a_repeated_request_does_not_begin_the_ramp_anew(
    either: Ledger, clock: Clock
) -> None:
    gate = await opening(either)
    await clock.advance(0.5 * RAMP)
    again = await either.set_gate(change("resume-p", paused=False, ramp=RAMP))
    assert again == gate.model_copy(update={"already_applied": True})


@pytest.mark.parametrize("was_closed", [False, True])
async def test_what_is_open_for_all_needs_no_ramp(
    either: Ledger, clock: Clock, was_closed: bool
) -> None:
    if was_closed:
        await opening(either)
        await clock.advance(RAMP)
    gate = await either.set_gate(change("ramp", paused=False, ramp=RAMP))
    assert gate.position(clock.now) is Position.OPEN
    await granted(either, LATE)


async def test_the_gate_of_all_partitions_opens_little_by_little_and_hides_no_other(
    either: Ledger, clock: Clock
) -> None:
    every = await opening(either, "*")
    told = await either.claim(request(EARLY))
    assert isinstance(told, Paused)
    assert told.partition == "*"
    await clock.set(turn(EARLY, every))
    await either.set_gate(change("own", paused=True))
    for name, stopped_by in ((LATE, "*"), (EARLY, "p")):
        single = await either.claim(request(name))
        (chunked,) = await either.claim_many([request(name)])
        assert isinstance(single, Paused)
        assert (single.partition, single) == (stopped_by, chunked)
    await granted(either, EARLY, effect=effect(EARLY, partition="q"))


async def test_a_chunk_is_let_through_as_far_as_the_turns_of_its_effects_have_come(
    either: Ledger, clock: Clock
) -> None:
    gate = await opening(either)
    await clock.advance(0.5 * RAMP)
    told = await either.claim_many([request(name, owner="w") for name in NAMES])
    for name, answer in zip(NAMES, told, strict=True):
        if turn(name, gate) <= clock.now:
            assert isinstance(answer, Granted)
        else:
            assert isinstance(answer, Paused)
            assert answer.turn is not None
            assert answer.turn.at == turn(name, gate)
    assert {type(answer) for answer in told} == {Granted, Paused}


async def test_a_claim_from_before_the_pause_is_renewed_only_at_its_turn(
    either: Ledger, clock: Clock
) -> None:
    lease = await granted(either, LATE, lease=2 * RAMP)
    before = await standing(either, LATE)
    gate = await opening(either)
    told = await either.renew(lease, LEASE)
    assert isinstance(told, Paused)
    assert told.turn is not None
    assert (await standing(either, LATE)).version == before.version
    await clock.set(turn(LATE, gate))
    await moved(either.renew(lease, LEASE))


async def test_a_rule_closes_a_gate_that_opens_little_by_little(
    either: Ledger, clock: Clock
) -> None:
    gate = await opening(either)
    await clock.set(turn(EARLY, gate))
    closing = Trip(
        partition="p",
        rule=Rule.LAG,
        reason="too late",
        counted_for=timedelta(0),
        probes=1,
        probe_after=timedelta(hours=1),
    )
    closed = await either.trip(closing)
    assert closed is not None
    assert (closed.paused, closed.ramp_until) == (True, None)
    assert isinstance(await either.claim(request(EARLY)), Paused)


async def test_turns_are_the_same_wherever_clocks_are_set_back(timeless: str) -> None:
    since, until = (datetime(2026, 10, day, 1, 2, 3, 4567, tzinfo=UTC) for day in (24, 26))
    connection = await asyncpg.connect(timeless, server_settings={"timezone": "Europe/Berlin"})
    found = await connection.fetch(
        "select effect, ascertain.turn_of(effect, $2, $3) as at from unnest($1::text[]) as effect",
        *(NAMES, since, until),
    )
    await connection.close()
    assert {record["effect"]: record["at"] for record in found} == {
        name: turn_of(name, since, until) for name in NAMES
    }


async def test_every_ramp_stays_on_record(ledger: PostgresLedger, clock: Clock) -> None:
    await opening(ledger)
    told = await clock.connection.fetch(
        "select request_id, ramp from ascertain.gate_requests order by request_id"
    )
    assert [tuple(record) for record in told] == [("pause-p", None), ("resume-p", RAMP)]


@pytest.mark.parametrize(
    ("paused", "ramp"),
    [(True, RAMP), (False, timedelta(0)), (False, timedelta(days=7, microseconds=1))],
)
def test_a_gate_is_closed_at_once_and_opened_within_a_week(paused: bool, ramp: timedelta) -> None:
    with pytest.raises(ValidationError, match="ramp"):
        change("r", paused=paused, ramp=ramp)
