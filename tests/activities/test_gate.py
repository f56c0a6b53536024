from __future__ import annotations

from datetime import UTC, datetime, timedelta

from temporalio.testing import ActivityEnvironment

from activities.gate import Gates
from activities.serving import Serving
from ascertain.contracts.gate import GateChange
from ascertain.ledger.model import ModelLedger
from tests.ledger.steps import LEASE, granted, moved, settled

T0 = datetime(2026, 1, 1, tzinfo=UTC)
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
