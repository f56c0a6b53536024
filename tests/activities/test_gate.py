from __future__ import annotations

from datetime import UTC, datetime, timedelta

from temporalio.testing import ActivityEnvironment

from activities.dispatch import dispatch
from activities.gate import Gates
from activities.serving import Served, Serving
from ascertain.contracts.breaker import Rule, Trip
from ascertain.contracts.directive import Held
from ascertain.contracts.gate import GateChange
from ascertain.contracts.semantics import Policy, Semantics
from ascertain.ledger.gate import turn_of
from ascertain.ledger.model import ModelLedger
from ascertain.ports import Kind
from ascertain.wait import AFTER
from tests.ledger.steps import LEASE, effect, granted, moved, settled

T0 = datetime(2026, 1, 1, tzinfo=UTC)


class Never:
    """What is never called."""

    def prepare(self, _):
        return b"{}"


CLOSE = GateChange(partition="p", paused=True, by="ada", reason="x", request_id="r")


async def test_an_attempt_that_can_send_no_more_but_has_not_reported_back_is_in_flight_yet():
    now = T0
    ledger = ModelLedger(lambda: now)
    gates = Gates(Serving(ledger, {}, "w"))

    async def closed():
        return await ActivityEnvironment().run(gates.set_gate, CLOSE)

    lease = await granted(ledger)
    sending = await closed()
    assert (sending.in_flight, sending.may_send_until) == (1, T0 + LEASE)
    now += LEASE + timedelta(seconds=1)
    quiet = await closed()
    assert (quiet.in_flight, quiet.may_send_until) == (1, None)
    await moved(ledger.record(lease, settled()))
    assert (await closed()).in_flight == 0


async def looks_again_in(ledger):
    adapter = Never()
    kind = Kind("toy.fact", Semantics(), Policy(), adapter)
    following = await dispatch(Serving(ledger, {}, "w"), Served(kind, adapter), effect("waits"))
    assert isinstance(following, Held)
    return following.delay


async def test_a_task_looks_more_seldom_at_a_gate_that_a_person_closed_long_ago():
    now = T0
    ledger = ModelLedger(lambda: now)
    await ledger.set_gate(CLOSE)
    waits = []
    for passed in (0, 2, 4, 58, 1440):
        now += timedelta(minutes=passed)
        waits.append(await looks_again_in(ledger))
    assert waits == [timedelta(seconds=s) for s in (15, 30, 90, 300, 300)]


async def test_a_task_goes_on_looking_at_a_gate_that_a_rule_closed_for_its_look_is_what_probes():
    now = T0
    ledger = ModelLedger(lambda: now)
    hour = timedelta(hours=1)
    closing = Trip(
        partition="p",
        rule=Rule.LAG,
        reason="late",
        counted_for=timedelta(0),
        probes=1,
        probe_after=10 * hour,
    )
    assert await ledger.trip(closing) is not None
    now += hour
    assert await looks_again_in(ledger) == Policy().held_recheck


async def test_a_task_looks_at_an_opening_gate_exactly_at_its_turn_however_long_that_is():
    now = T0
    ledger = ModelLedger(lambda: now)
    await ledger.set_gate(CLOSE)
    now += timedelta(hours=1)
    opening = CLOSE.model_copy(
        update={"paused": False, "request_id": "o", "ramp": timedelta(days=7)}
    )
    gate = await ledger.set_gate(opening)
    turn = turn_of("ef1-waits", gate.since, gate.ramp_until)
    assert await looks_again_in(ledger) == turn - now + AFTER
