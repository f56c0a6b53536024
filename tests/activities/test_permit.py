from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from activities.permit import HeldPermit, steady
from ascertain.contracts.claim import ClaimRequest, Lease
from ascertain.contracts.effect import Effect
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


async def test_a_permit_is_not_renewed_past_the_end_of_its_key():
    """By what is declared now; the ledger knows what was declared when it was first sent."""
    ledger, five = ModelLedger(lambda: datetime.now(UTC)), timedelta(seconds=5)
    effect = Effect(
        effect_id="ef1-a", task_id="t", step="do", kind="toy.fact", partition="p", input={}
    )
    request = ClaimRequest(effect, "f" * 64, b"", "w", lease=five, budget=5)
    asked_at = steady()
    granted = await ledger.claim(request)
    soon = granted.row.now + five
    permit = HeldPermit(ledger, granted.lease, asked_at=asked_at, length=five, key_ends=soon)
    with pytest.raises(PermitLost, match="its key protects"):
        await permit.renew()
    with pytest.raises(PermitLost):
        permit.check()
    later = HeldPermit(
        ledger, granted.lease, asked_at=asked_at, length=five, key_ends=soon + timedelta(hours=1)
    )
    await later.renew()
    later.check()


class LateLedger(ModelLedger):
    """Its answer to a renewal arrives when the attempt is over."""

    over = None

    async def renew(self, lease, extend):
        answer = await super().renew(lease, extend)
        self.over()
        return answer


@pytest.mark.parametrize("ledger_of", [ModelLedger, LateLedger])
async def test_what_an_adapter_left_behind_renews_no_permit_whose_attempt_is_over(ledger_of):
    ledger, five = ledger_of(lambda: datetime.now(UTC)), timedelta(seconds=5)
    effect = Effect(
        effect_id="ef1-a", task_id="t", step="do", kind="toy.fact", partition="p", input={}
    )
    request = ClaimRequest(effect, "f" * 64, b"", "w", lease=five, budget=5)
    granted = await ledger.claim(request)
    permit = HeldPermit(ledger, granted.lease, asked_at=steady(), length=five)
    if ledger_of is LateLedger:
        ledger.over = permit.spend
    else:
        permit.spend()
    with pytest.raises(PermitLost, match="its attempt is over"):
        await permit.renew()
    with pytest.raises(PermitLost):
        permit.check()
