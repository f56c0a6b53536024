from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from activities.permit import HeldPermit, steady
from ascertain.contracts.claim import Lease
from ascertain.errors import LedgerDown, PermitLost
from ascertain.ledger.model import ModelLedger


class DownLedger(ModelLedger):
    async def renew(self, lease, extend):
        raise LedgerDown("no answer")


async def test_a_permit_that_the_ledger_cannot_renew_sends_nothing():
    ledger = DownLedger(lambda: datetime.now(UTC))
    permit = HeldPermit(
        ledger,
        Lease("ef1-a", "w", 1, 1),
        asked_at=steady(),
        length=timedelta(seconds=5),
    )
    with pytest.raises(PermitLost, match="could not be renewed"):
        await permit.renew()
    assert not permit.used
