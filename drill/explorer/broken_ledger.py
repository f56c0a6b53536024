"""Ledgers that have lost one rule each. A walk that does not notice would prove nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from ascertain.contracts.claim import Granted
from ascertain.contracts.effect import State
from ascertain.ledger.model import ModelLedger
from ascertain.machine import Move
from drill.explorer.page import ANOTHER, EFFECT

if TYPE_CHECKING:
    from datetime import timedelta

    from ascertain.contracts.claim import (
        ClaimAnswer,
        ClaimRequest,
        Conflict,
        Lease,
        Paused,
        Verdict,
        Written,
    )
    from ascertain.contracts.effect import Effect, EffectRow
    from ascertain.contracts.outcome import Outcome


class _Broken(ModelLedger):
    """A ledger whose memory can be made to say something else for one operation."""

    def pretend(self, **changes: Any) -> None:  # noqa: ANN401  # any field of a row
        """Change the row behind the ledger's back, if there is one."""
        memory = self.snapshot()
        row = memory.rows.get(EFFECT.effect_id)
        if row is not None:
            rows = {**memory.rows, row.effect_id: row.model_copy(update=changes)}
            self.restore(replace(memory, rows=rows))

    @property
    def row(self) -> EffectRow | None:
        """The row as it stands."""
        return self.snapshot().rows.get(EFFECT.effect_id)

    async def claim_as_clear(self, request: ClaimRequest, state: State) -> ClaimAnswer:
        """Claim what is in this state as if it were proven not to exist."""
        before = self.snapshot()
        if self.row is None or self.row.state is not state:
            return await super().claim(request)
        self.pretend(state=State.CLEAR)
        answer = await super().claim(request)
        if not isinstance(answer, Granted):
            self.restore(before)
        return answer


class OpenClaimIgnored(_Broken):
    """A claim is granted although another one is open."""

    @override
    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        return await self.claim_as_clear(request, State.IN_FLIGHT)


class DoubtIgnored(_Broken):
    """A claim is granted although an earlier one is not resolved."""

    @override
    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        return await self.claim_as_clear(request, State.UNKNOWN)


class ClaimKeepsNumber(_Broken):
    """A claim does not raise lease_version."""

    @override
    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        before = self.row
        answer = await super().claim(request)
        if before is not None:
            self.pretend(lease_version=before.lease_version)
        return answer


class FenceKeepsNumber(_Broken):
    """A fence does not raise lease_version."""

    @override
    async def fence(self, effect_id: str, version: int, by: str) -> Written:
        before = self.row
        written = await super().fence(effect_id, version, by)
        if before is not None:
            self.pretend(lease_version=before.lease_version)
        return written


class EarlyFence(_Broken):
    """A claim is fenced before its lease is over."""

    @override
    async def fence(self, effect_id: str, version: int, by: str) -> Written:
        row = self.row
        if row is not None and row.state is State.IN_FLIGHT and row.version == version:
            self.pretend(lease_until=min(row.lease_until, row.now))
        return await super().fence(effect_id, version, by)

    @override
    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        row = self.row
        if row is not None and row.state is State.IN_FLIGHT:
            self.pretend(lease_until=min(row.lease_until, row.now))
        return await super().claim(request)  # which fences what is past its lease


class RecordIgnoresNumber(_Broken):
    """An owner's write is applied whatever its lease_version."""

    @override
    async def record(
        self, lease: Lease, outcome: Outcome, *, retry_in: timedelta | None = None
    ) -> Written:
        if self.row is not None:
            lease = replace(lease, lease_version=self.row.lease_version)
        return await super().record(lease, outcome, retry_in=retry_in)


class ConvergeIgnoresVersion(_Broken):
    """What reconciliation found is applied whatever has happened since."""

    @override
    async def converge(self, effect_id: str, version: int, verdict: Verdict, by: str) -> Written:
        current = version if self.row is None else self.row.version
        return await super().converge(effect_id, current, verdict, by)


class DecideIgnoresOwner(_Broken):
    """Anybody may decide on what somebody has taken over."""

    @override
    async def decide(
        self, effect_id: str, version: int, move: Move, verdict: Verdict, operator: str
    ) -> Written:
        if self.row is not None and self.row.taken_by is not None:
            self.pretend(taken_by=operator)
        return await super().decide(effect_id, version, move, verdict, operator)


class TakesInFlight(_Broken):
    """A person may take over what is in flight."""

    @override
    async def decide(
        self, effect_id: str, version: int, move: Move, verdict: Verdict, operator: str
    ) -> Written:
        row = self.row
        open_now = row is not None and row.state is State.IN_FLIGHT and row.version == version
        if move is Move.TAKE and open_now:
            self.pretend(state=State.UNKNOWN)
        return await super().decide(effect_id, version, move, verdict, operator)


class GateIgnored(_Broken):
    """A claim does not look at the gate."""

    @override
    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        self.restore(replace(self.snapshot(), gates={}))
        return await super().claim(request)


class GateIgnoredByRenewal(_Broken):
    """A renewal does not look at the gate."""

    @override
    async def renew(self, lease: Lease, extend: timedelta) -> Written | Paused:
        self.restore(replace(self.snapshot(), gates={}))
        return await super().renew(lease, extend)


class TurnIgnored(_Broken):
    """A claim does not wait for its turn in a gate that opens little by little."""

    @override
    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        memory = self.snapshot()
        gates = {
            name: gate.model_copy(update={"ramp_until": None})
            for name, gate in memory.gates.items()
        }
        self.restore(replace(memory, gates=gates))
        return await super().claim(request)


class BudgetIgnored(_Broken):
    """A claim does not look at the budget."""

    @override
    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        return await super().claim(replace(request, budget=99))


class LateReceiptsForgotten(_Broken):
    """A write that came too late leaves nothing behind."""

    @override
    async def record(
        self, lease: Lease, outcome: Outcome, *, retry_in: timedelta | None = None
    ) -> Written:
        trails = self.snapshot().trails
        stale = self.row is not None and self.row.lease_version != lease.lease_version
        written = await super().record(lease, outcome, retry_in=retry_in)
        if stale:
            self.restore(replace(self.snapshot(), trails=trails))
        return written


class WithdrawalsForgotten(_Broken):
    """Who cancels is told that it is closed, but what was never claimed leaves no row."""

    @override
    async def withdraw(self, effect: Effect, fingerprint: str, by: str) -> Written | Conflict:
        before = self.snapshot()
        answer = await super().withdraw(effect, fingerprint, by)
        if self.row is not None and self.row.attempt == 0:
            self.restore(before)
        return answer


class FactsShared(_Broken):
    """One fact may prove two effects."""

    @override
    async def record(
        self, lease: Lease, outcome: Outcome, *, retry_in: timedelta | None = None
    ) -> Written:
        memory = self.snapshot()
        other = memory.rows.get(ANOTHER)
        if other is None or lease.effect_id == ANOTHER:
            return await super().record(lease, outcome, retry_in=retry_in)
        alone = {EFFECT.effect_id: memory.rows[EFFECT.effect_id]}
        self.restore(replace(memory, rows=alone))
        written = await super().record(lease, outcome, retry_in=retry_in)
        memory = self.snapshot()
        self.restore(replace(memory, rows={**memory.rows, ANOTHER: other}))
        return written
